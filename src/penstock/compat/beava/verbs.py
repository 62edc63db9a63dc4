"""Every verb of beava, for HTTP and TCP alike."""

from __future__ import annotations

from penstock.compat.beava.pusher import Pusher
from penstock.compat.beava.reader import Reader
from penstock.compat.beava.registrar import Registrar
from penstock.server.adapters import FeatureService


class BeavaVerbs:
    """Event loop only."""

    def __init__(self, features: FeatureService, *, is_test_mode: bool) -> None:
        self._features = features
        self.registrar = Registrar(features, is_test_mode=is_test_mode)
        self.pusher = Pusher(features)
        self.reader = Reader(features)

    @property
    def version(self) -> int:
        """Of the registry."""
        return self._features.store.version
