"""Whether the server accepts requests: not during the recovery of the log, nor while it stops.

Such requests get 503: during recovery with its progress, and except for the routes that are
answered early (health, readiness and the OpenAPI document). `http/access.py` asks before each
request.
"""

from __future__ import annotations

from penstock.server.errors import ApiError


class Readiness:
    """`is_serving` is what every request reads. Event loop only, except `record_progress`."""

    def __init__(self) -> None:
        self.is_serving = False
        self._is_recovered = False
        self._is_stopping = False
        self._replayed = (0, 1)

    def record_progress(self, done: int, total: int) -> None:
        """On the thread of the recovery."""
        self._replayed = (done, total)

    def finish_recovery(self) -> None:
        self._is_recovered = True
        self.is_serving = not self._is_stopping

    def begin_stop(self) -> None:
        self._is_stopping = True
        self.is_serving = False

    def progress(self) -> float | None:
        """The progress of recovery, 0 to 1; None when it is complete."""
        if self._is_recovered:
            return None
        done, total = self._replayed
        return round(min(1.0, done / total), 4) if total else 0.0

    def check(self, *, is_early: bool) -> None:
        """Raise the error of a request that is not accepted now. Early routes are answered during
        recovery."""
        if not is_early:
            self.check_recovered()
        if self._is_stopping:
            raise ApiError(
                503, "shutting_down", "the server is shutting down: retry after its restart"
            )

    def check_recovered(self) -> None:
        progress = self.progress()
        if progress is not None:
            raise ApiError(
                503,
                "not_ready",
                f"recovery is at {progress:.0%}: retry when /v0/ready answers 200",
                {"replay_progress": progress},
            )
