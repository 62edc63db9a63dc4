"""Selects the next server and the backoff between rounds. Pure: time and chance are arguments.

Healthy hosts come first, then unknown ones; ties keep the order of the connect string. A round
tries each host once without a pause. After a round there is a pause, which doubles each time.
"""

from __future__ import annotations

import enum

from penstock.sender.connect_string import Endpoint


class Health(enum.IntEnum):
    """The result of the last attempt, best first."""

    HEALTHY = 0
    UNKNOWN = 1
    CATCHING_UP = 2  # the server asked for a retry
    UNREACHABLE = 3
    WRONG_ROLE = 4  # the server does not accept writes


class Hosts:
    """The servers of a connect string."""

    def __init__(self, hosts: tuple[Endpoint, ...], *, initial_s: float, cap_s: float) -> None:
        self._health = dict.fromkeys(hosts, Health.UNKNOWN)
        self._tried: set[Endpoint] = set()
        self._latest: Endpoint | None = None  # the host of the last connection
        self._initial_s = initial_s
        self._cap_s = cap_s
        self._backoff_s = initial_s

    def pick(self) -> Endpoint | None:
        """The best host that this round has not tried; None at the end of the round."""
        left = [host for host in self._health if host not in self._tried]
        if not left:
            return None
        best = min(left, key=self._health.__getitem__)
        self._tried.add(best)
        return best

    def backoff_s(self, roll: float) -> float:
        """Begin the next round. Returns the pause before it; `roll` is from 0 up to 1."""
        self._tried.clear()
        if (
            Health.WRONG_ROLE in self._health.values()
            or Health.CATCHING_UP in self._health.values()
        ):
            backoff_s = self._backoff_s = self._initial_s
        else:
            backoff_s = self._backoff_s
            self._backoff_s = min(self._cap_s, 2 * self._backoff_s)
        for host in self._health:
            if host != self._latest:
                self._health[host] = Health.UNKNOWN
        return min(self._cap_s, 2 * backoff_s) * (1 + roll) / 2

    def record_connected(self, host: Endpoint) -> None:
        """A connection was opened; `record_progress` resets the backoff."""
        self._health[host] = Health.HEALTHY
        self._latest = host
        self._tried.clear()

    def record_progress(self) -> None:
        """A frame was acknowledged: the backoff starts again from its initial value."""
        self._backoff_s = self._initial_s

    def record_failure(self, host: Endpoint, health: Health) -> None:
        """An attempt failed, or a connection ended."""
        self._health[host] = health
        self._tried.add(host)
