"""beava's admin port: probes, the registry, metrics that have a meaning here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.compat.beava.replies import BeavaError, json_of
from penstock.feature_types import FeatureTableStatus
from penstock.server.adapters import FeatureService, Request, Response

_TEXT: Final = b"text/plain; version=0.0.4; charset=utf-8"
_ROUTES: Final = ("/health", "/ready", "/registry", "/metrics")


class AdminRoutes:
    """Event loop only."""

    def __init__(self, features: FeatureService) -> None:
        self._features = features

    async def answer(self, request: Request) -> Response:
        """The answer, errors included."""
        path = request.path.rstrip("/")
        if path not in _ROUTES:
            error = BeavaError(404, "not_found", path=request.path)
        elif request.method != "GET":
            error = BeavaError(405, "method_not_allowed", method=request.method, path=request.path)
        elif path == "/metrics":
            return Response(200, await self._metrics(), content_type=_TEXT)
        elif path == "/registry":
            return Response(200, json_of({"version": self._version, "node_count": self._nodes()}))
        else:
            return Response(200, json_of({"status": "ok" if path == "/health" else "ready"}))
        return Response(error.status, json_of(error.body()))

    @property
    def _version(self) -> int:
        return self._features.store.version

    def _nodes(self) -> int:
        definition = self._features.store.definition
        return len(definition.events) + len(definition.derived) + len(definition.tables)

    async def _metrics(self) -> bytes:
        tables = await self._features.run(self._features.store.tables)
        lines = [
            *_metric("registry_version", "gauge", self._version),
            *_metric("node_count", "gauge", self._nodes()),
            "# TYPE beava_runtime_kind gauge",
            'beava_runtime_kind{runtime="penstock"} 1',
            *_of_tables(tables),
        ]
        return "".join(f"{line}\n" for line in lines).encode()


def _of_tables(tables: Iterable[FeatureTableStatus]) -> list[str]:
    parts = [part for table in tables for part in table.parts]
    rows = sum(part.keys for part in parts)
    last_s = max((part.snapshot_ms for part in parts), default=0.0) / 1000
    size = sum(part.snapshot_bytes for part in parts)
    held = sum(part.bytes for part in parts)
    return [
        *_metric("entity_count_resident", "gauge", rows),
        *_metric("bytes_resident", "gauge", held),
        *_metric("snapshot_last_duration_seconds", "gauge", last_s),
        *_metric("snapshot_last_bytes", "gauge", size),
    ]


def _metric(name: str, kind: str, value: float) -> list[str]:
    return [f"# TYPE beava_{name} {kind}", f"beava_{name} {value}"]
