"""Which server to try next, and how long to rest between rounds. Pure: time and chance come in.

Healthy ones come first, then those nobody knows anything of; ties keep the order of the connect
string. A round tries each host once without a rest; then comes one rest, twice as long each time.
"""

from __future__ import annotations

import enum

from penstock.sender.profile import Host


class Health(enum.IntEnum):
    """What the last attempt showed; the best first."""

    HEALTHY = 0
    UNKNOWN = 1
    CATCHING_UP = 2  # it said: soon
    UNREACHABLE = 3
    WRONG_ROLE = 4  # it said: not me


class Hosts:
    """The servers of a connect string."""

    def __init__(self, hosts: tuple[Host, ...], *, initial_s: float, cap_s: float) -> None:
        self._health = dict.fromkeys(hosts, Health.UNKNOWN)
        self._tried: set[Host] = set()
        self._latest: Host | None = None  # the one that was healthy most recently
        self._initial_s = initial_s
        self._cap_s = cap_s
        self._rest_s = initial_s

    def pick(self) -> Host | None:
        """The best host that this round has not tried; None: the round is over, rest."""
        left = [host for host in self._health if host not in self._tried]
        if not left:
            return None
        best = min(left, key=self._health.__getitem__)
        self._tried.add(best)
        return best

    def rest_s(self, roll: float) -> float:
        """The round is over: how long to rest, with `roll` from 0 up to 1. The next one begins."""
        self._tried.clear()
        if (
            Health.WRONG_ROLE in self._health.values()
            or Health.CATCHING_UP in self._health.values()
        ):
            rest_s = self._rest_s = self._initial_s
        else:
            rest_s = self._rest_s
            self._rest_s = min(self._cap_s, 2 * self._rest_s)
        for host in self._health:
            if host != self._latest:
                self._health[host] = Health.UNKNOWN
        return min(self._cap_s, 2 * rest_s) * (1 + roll) / 2

    def connected(self, host: Host) -> None:
        """It took us. That it is of use, `progressed` says."""
        self._health[host] = Health.HEALTHY
        self._latest = host
        self._tried.clear()

    def progressed(self) -> None:
        """Something was acknowledged: the next rest is a short one again."""
        self._rest_s = self._initial_s

    def failed(self, host: Host, health: Health) -> None:
        """An attempt came to nothing, or a connection broke."""
        self._health[host] = health
        self._tried.add(host)
