from __future__ import annotations

import msgspec
import pytest

from penstock.config import Settings, from_environment
from penstock.errors import InvalidArgument


def test_every_setting_has_its_environment_variable() -> None:
    chosen = Settings(
        wal_shards=3,
        wal_file_bytes=8192,
        sync_tick_ms=7,
        segment_max_events=11,
        segment_max_bytes=4096,
        segment_max_age_ms=0,
        checkpoint_wal_bytes=4096,
        cold_dir="/cold",
        hot_retain_segments=7,
        hot_retain_bytes=8192,
        cold_cache_bytes=16384,
        default_durability="fsync",
        max_topics=5,
        max_routers=6,
        append_timeout_s=2.5,
        upkeep_interval_ms=9,
        projection_interval_ms=11,
        feature_bytes_max=1 << 20,
        allow_network_fs=True,
        background=False,
    )
    fields = msgspec.structs.asdict(chosen)
    environ = {f"PENSTOCK_{name.upper()}": str(value).lower() for name, value in fields.items()}

    assert from_environment(environ) == chosen
    assert all(value != getattr(Settings(), name) for name, value in fields.items())


def test_a_value_from_code_wins_over_the_environment() -> None:
    found = from_environment({"PENSTOCK_WAL_SHARDS": "3"}, wal_shards=5)

    assert found == Settings(wal_shards=5)


def test_other_variables_play_no_part() -> None:
    assert from_environment({"WAL_SHARDS": "3", "PENSTOCK_PORT": "80", "HOME": "/"}) == Settings()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("WAL_SHARDS", "0"),
        ("WAL_SHARDS", "65"),
        ("WAL_SHARDS", "many"),
        ("WAL_SHARDS", ""),
        ("WAL_FILE_BYTES", "100"),
        ("SYNC_TICK_MS", "0"),
        ("SEGMENT_MAX_EVENTS", "0"),
        ("SEGMENT_MAX_BYTES", "-1"),
        ("CHECKPOINT_WAL_BYTES", "1"),
        ("DEFAULT_DURABILITY", "paper"),
        ("MAX_TOPICS", "-1"),
        ("UPKEEP_INTERVAL_MS", "0"),
        ("BACKGROUND", "perhaps"),
    ],
)
def test_a_senseless_setting_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"setting"):
        from_environment({f"PENSTOCK_{name}": text})


def test_an_unknown_setting_in_code_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Settings(colour="blue")  # type: ignore[call-arg]
