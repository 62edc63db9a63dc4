"""How the tests start Java: jobs of seconds are over before its better compiler pays."""

from __future__ import annotations

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DRIVER = {"spark.driver.extraJavaOptions": OPTIONS}
EXECUTOR = {"spark.executor.extraJavaOptions": OPTIONS}
