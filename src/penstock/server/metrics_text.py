"""The text format of Prometheus."""

from __future__ import annotations


class MetricsText:
    """A growing Prometheus text."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(self, name: str, kind: str, text: str) -> None:
        self._lines.append(f"# HELP penstock_{name} {text}")
        self._lines.append(f"# TYPE penstock_{name} {kind}")

    def sample(self, name: str, value: float, labels: str = "") -> None:
        number = int(value) if value == int(value) else value
        self._lines.append(
            f"penstock_{name}{{{labels}}} {number}" if labels else f"penstock_{name} {number}"
        )

    def gauge(self, name: str, text: str, value: float) -> None:
        self.family(name, "gauge", text)
        self.sample(name, value)

    def counter(self, name: str, text: str, value: float) -> None:
        self.family(name, "counter", text)
        self.sample(name, value)

    def text(self) -> bytes:
        return ("\n".join(self._lines) + "\n").encode()
