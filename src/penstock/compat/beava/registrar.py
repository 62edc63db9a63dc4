"""`register` and `reset`: what beava's clients may change of the definition."""

from __future__ import annotations

import msgspec

from penstock.compat.beava import bodies
from penstock.compat.beava.registration import BadRegistration, definition_of
from penstock.compat.beava.registration_diff import diff_of
from penstock.compat.beava.registration_places import placed
from penstock.compat.beava.replies import BeavaError
from penstock.errors import ForceRequired, InvalidArgument, InvalidDefinition
from penstock.server.adapters import FeatureService

Answer = dict[str, object]
_WAIT_S = 2.0  # for new features that are folded from history
_FORCE = "a change that loses something needs force=true; see the diff"


class Registrar:
    """Event loop only."""

    def __init__(self, features: FeatureService, *, is_test_mode: bool) -> None:
        self._features = features
        self._is_test_mode = is_test_mode

    async def register(self, payload: bytes) -> Answer:
        """Nodes add to what is known. What they do not name stays."""
        try:
            return await self._register(payload)
        except BadRegistration as error:
            version = self._features.store.version
            raise BeavaError(
                400, error.code, version, path=error.path, reason=error.reason
            ) from None

    async def _register(self, payload: bytes) -> Answer:
        try:
            body = bodies.registration(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRegistration("invalid_registration", "<body>", str(error)) from None
        store = self._features.store
        known = store.definition.to_json()
        document = definition_of(body.nodes, known)
        try:
            registered = await self._features.run(
                store.register,
                document,
                dry_run=body.dry_run,
                force=body.force or body.dry_run,
                wait_s=_WAIT_S,
            )
        except InvalidDefinition as error:
            raise placed(error, body.nodes) from None
        except ForceRequired as error:
            diff = diff_of(error.changes, body.nodes)
            raise BeavaError(
                409, "force_required", store.version, diff=diff, reason=_FORCE
            ) from None
        except InvalidArgument as error:
            raise BadRegistration("invalid_registration", "<body>", str(error)) from None
        if body.dry_run:
            return {"diff": diff_of(registered.changes, body.nodes), "would_apply": False}
        names = [node["name"] for node in body.nodes]
        before = {node["name"] for nodes in known.values() for node in nodes}
        return {
            "status": "ok",
            "registry_version": registered.version,
            "registered_descriptors": names,
            "added": [name for name in names if name not in before],
            "already_present": sorted(before.intersection(names)),
        }

    async def reset(self) -> Answer:
        """Forget everything, also the events. In test mode only."""
        if not self._is_test_mode:
            raise BeavaError(
                403, "reset_disabled_in_production", reason="start with --test-mode to permit it"
            )
        await self._features.reset()
        return {"reset": True, "registry_version": self._features.store.version}
