"""The connect string: every key with good and bad values, and no secret in a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.limits import MIB
from penstock.sender import connect_string as profiles
from penstock.sender.connect_string import ConnectOptions, Endpoint, parse, settings_of
from penstock.sender.foreign_keys import REFUSED, why_refused

POLICIES = {"auto": "auto", "drop": "drop", "halt": "halt", "retry": "retry"}
POSITIVE = {"1": 1, "250": 250, "2147483647": 2_147_483_647}
SIZES = {"4096": 4096, "4k": 4096, "64KB": 65536, "1m": MIB, "2Mb": 2 * MIB, "1g": 1024 * MIB}
SWITCH = {"on": True, "true": True, "off": False, "false": False}
STRICT = {"on": True, "off": False}
NOT_POSITIVE = ["", "0", "2147483648", "-1", "1.5", "+1", "one", "1 ", "0x10", "1e3", "\u0661"]
NO_SIZE = ["", "0", "0k", "-1", "1.5m", "k", "4x", "4 m", "4mm"]
NO_SWITCH = ["", "yes", "1", "ON", "On "]

# Key -> what else it needs, good values and what they mean, bad values.
KEYS: dict[str, tuple[str, dict[str, object], list[str]]] = {
    "sf_dir": ("", {"/x": "/x", "rel/ative": "rel/ative", "a;;b": "a;b"}, [""]),
    "sender_id": ("", {"a": "a", "A-b_9": "A-b_9"}, ["", "a b", "a/b", "..", "ä", "x" * 129]),
    "sf_max_segment_bytes": ("", SIZES, [*NO_SIZE, "1", "3k", "4095", "1025m", "2g"]),
    "sf_max_total_bytes": (
        "",
        {"8k": 8 * 1024, "64m": 64 * MIB, "1t": 1 << 40},
        [*NO_SIZE, "1", "7k", "8191"],
    ),
    "sf_durability": (
        "sf_dir=/x;",
        {"memory": "memory", "periodic": "periodic", "append": "append"},
        ["", "flush", "none"],
    ),
    "sf_sync_interval_millis": ("sf_dir=/x;sf_durability=periodic;", POSITIVE, NOT_POSITIVE),
    "sf_append_deadline_millis": ("", POSITIVE, NOT_POSITIVE),
    "sf_allow_network_fs": ("", STRICT, [*NO_SWITCH, "true"]),
    "drain_orphans": ("", SWITCH, NO_SWITCH),
    "max_background_drainers": ("", {"0": 0, "9": 9}, ["", "-1", "x"]),
    "reconnect_initial_backoff_millis": ("", {"1": 1, "5000": 5000}, NOT_POSITIVE),
    "reconnect_max_backoff_millis": ("", {"100": 100, "60000": 60_000}, NOT_POSITIVE),
    "reconnect_max_duration_millis": ("", POSITIVE, NOT_POSITIVE),
    "initial_connect_retry": (
        "",
        {
            "off": "off",
            "false": "off",
            "on": "sync",
            "true": "sync",
            "sync": "sync",
            "async": "async",
        },
        ["", "later"],
    ),
    "connect_timeout": ("", POSITIVE, NOT_POSITIVE),
    "auth_timeout_ms": ("", POSITIVE, NOT_POSITIVE),
    "close_flush_timeout_millis": ("", {"-1": -1, "0": 0, "7": 7}, ["", "x", "1.5"]),
    "request_durable_ack": ("", STRICT, [*NO_SWITCH, "true", "false"]),
    "durable_ack_keepalive_interval_millis": ("", {"-1": -1, "0": 0, "5": 5}, ["", "x"]),
    "error_inbox_capacity": ("", {"16": 16, "1000": 1000}, ["", "15", "0", "-1", "x"]),
    "max_frame_rejections": ("", {"1": 1, "9": 9}, ["", "0", "-1", "x"]),
    "poison_min_escalation_window_millis": ("", {"0": 0, "9": 9}, ["", "-1", "x"]),
    "on_server_error": ("", dict(POLICIES), ["", "banana", "DROP"]),
    "on_schema_error": ("", dict(POLICIES), ["", "banana"]),
    "on_parse_error": ("", dict(POLICIES), ["", "banana"]),
    "on_internal_error": ("", dict(POLICIES), ["", "banana"]),
    "on_security_error": ("", dict(POLICIES), ["", "banana"]),
    "on_write_error": ("", dict(POLICIES), ["", "banana"]),
    "username": ("password=p;", {"me": "me"}, [""]),
    "password": ("username=u;", {"a;;b=c": "a;b=c"}, [""]),
    "token": ("", {"secret": "secret"}, [""]),
    "tls_verify": ("", {"on": True, "unsafe_off": False}, ["", "off", "true"]),
    "tls_ca": ("", {"/ca.pem": "/ca.pem"}, [""]),
    "auto_flush": ("", STRICT, [*NO_SWITCH, "true"]),
    "auto_flush_rows": (
        "",
        {"off": 0, "1": 1, "5": 5, "10000": 10_000},
        [*NOT_POSITIVE, "10001", "1000000"],
    ),
    "auto_flush_bytes": (
        "",
        {"off": 0, "1": 1, "64k": 65536, "1m": MIB},
        [*NO_SIZE, "1048577", "4m"],
    ),
    "auto_flush_interval": ("", {"off": 0, "1": 1, "5": 5}, NOT_POSITIVE),
    "qwp_ws_progress": ("", {"background": "background"}, ["", "manual", "on"]),
}


def made(key: str, value: str) -> ConnectOptions:
    schema = "wss" if key.startswith("tls") else "ws"
    return parse(f"{schema}::addr=h:1;{KEYS[key][0]}{key}={value};")


def test_every_key_is_tried() -> None:
    assert set(KEYS) == set(profiles._READERS)
    assert set(KEYS) <= set(ConnectOptions.__struct_fields__)


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, (_, good, _) in KEYS.items() for value in good]
)
def test_a_good_value_is_taken(key: str, value: str) -> None:
    assert getattr(made(key, value), key) == KEYS[key][1][value]


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, (_, _, bad) in KEYS.items() for value in bad]
)
def test_a_bad_value_is_refused_by_its_key(key: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=key):
        made(key, value)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_stands_once(key: str) -> None:
    value = next(iter(KEYS[key][1]))
    with pytest.raises(InvalidArgument, match=f"{key} is given twice"):
        made(key, f"{value};{key}={value}")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("sf_dri", "sf_dir"),
        ("adr", "addr"),
        ("sf_max_bytes", "sf_max_total_bytes|sf_max_segment_bytes"),
        ("drain_orphan", "drain_orphans"),
        ("request_durable_acks", "request_durable_ack"),
        ("autoflush_rows", "auto_flush_rows"),
        ("tls_root", "tls_roots"),
    ],
)
def test_an_unknown_key_names_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(InvalidArgument, match=f"unknown key '{wrong}'.*did you mean ({near})"):
        parse(f"ws::addr=h:1;{wrong}=1;")


def test_a_key_that_is_like_none_gets_no_hint() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse("ws::addr=h:1;zzzzzz=1;")

    assert "did you mean" not in str(caught.value)


# Keys of other clients.


def test_an_alias_is_the_key_it_stands_for() -> None:
    assert parse("wss::addr=h;tls_roots=/roots.pem;").tls_ca == "/roots.pem"


@pytest.mark.parametrize("text", ["tls_ca=/a;tls_roots=/b;", "tls_roots=/a;tls_ca=/b;"])
def test_an_alias_and_its_key_are_one(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"tls_ca.* is given twice"):
        parse(f"wss::addr=h;{text}")


def test_an_alias_has_the_rules_of_its_key() -> None:
    with pytest.raises(InvalidArgument, match="tls_roots must not be empty"):
        parse("wss::addr=h;tls_roots=;")
    with pytest.raises(InvalidArgument, match="tls_roots need wss"):
        parse("ws::addr=h;tls_roots=/a;")


@pytest.mark.parametrize("key", [*REFUSED, "failover_max_attempts", "compression_level"])
def test_a_key_of_others_is_refused_by_name_and_reason(key: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(f"ws::addr=h;{key}=1;token=t;")
    assert str(caught.value) == f"unsupported key {key}: {why_refused(key)}"


@pytest.mark.parametrize("key", REFUSED)
def test_such_a_key_is_not_taken_for_a_part_of_a_secret(key: str) -> None:
    with pytest.raises(InvalidArgument, match=f"unsupported key {key}"):
        parse(f"ws::addr=h;token=t;{key}=1;")


# Addresses.


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("addr=h;", [("h", 4000)]),
        ("addr=h:1;", [("h", 1)]),
        ("addr=h:1", [("h", 1)]),
        ("addr=a:1,b:2,c;", [("a", 1), ("b", 2), ("c", 4000)]),
        ("addr=a:1;addr=b:2;", [("a", 1), ("b", 2)]),
        ("addr=a:1,a:1;", [("a", 1)]),
        ("addr=[::1]:5,10.0.0.1:65535;", [("::1", 5), ("10.0.0.1", 65535)]),
        ("addr=a_b.example.:1;", [("a_b.example.", 1)]),
        ("addr=münchen.example:1;", [("münchen.example", 1)]),
        (f"addr={'x' * 63}.example:1;", [("x" * 63 + ".example", 1)]),
    ],
)
def test_addresses(text: str, hosts: list[tuple[str, int]]) -> None:
    assert parse("ws::" + text).hosts == tuple(Endpoint(*host) for host in hosts)


@pytest.mark.parametrize(
    "addr", ["", ",", "a,", ":1", "a:0", "a:65536", "a:x", "::1", "a:1:2", "http://a", "a b"]
)
def test_what_is_no_address(addr: str) -> None:
    with pytest.raises(InvalidArgument, match="addr"):
        parse(f"ws::addr={addr};")


@pytest.mark.parametrize(
    "name",
    [
        *("a..b", ".a", "a..", ".", "x" * 64, f"{'x' * 64}.b", ".".join(["abc"] * 64)),
        *("a%b", "a#b", "ä" * 60, "\ud800", "[1::2::3]", "[1.2.3.4]", "[:]"),
    ],
)
def test_a_name_that_cannot_be_looked_up_is_no_address(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"addr.*host"):
        parse(f"ws::addr={name}:4000;")


def test_a_host_is_written_as_it_is_connected_to() -> None:
    assert str(Endpoint("h", 1)) == "h:1"
    assert str(Endpoint("::1", 1)) == "[::1]:1"


@pytest.mark.parametrize(
    "text", ["", "ws", "ws:", "http::addr=h;", "WS::addr=h;", "addr=h;", "ws::", "ws::token=t;"]
)
def test_what_is_no_connect_string(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse(text)


@pytest.mark.parametrize("text", [None, b"ws::addr=h;", 7])
def test_a_connect_string_is_text(text: object) -> None:
    with pytest.raises(InvalidArgument, match="text"):
        parse(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["addr=h;x;", "addr=h;=1;", "addr=h; token=a;", "addr=h;T=1;"])
def test_what_is_no_pair(text: str) -> None:
    with pytest.raises(InvalidArgument, match="key=value"):
        parse("ws::" + text)


@pytest.mark.parametrize("letter", ["\0", "\n", "\r", "\x7f"])
def test_a_control_character_is_refused(letter: str) -> None:
    with pytest.raises(InvalidArgument, match="token contains a control character"):
        parse(f"ws::addr=h;token=a{letter}b;")


# Keys that depend on each other.


@pytest.mark.parametrize(
    "text",
    [
        "token=t;username=u;password=p;",
        "username=u;",
        "password=p;",
        "tls_verify=on;",
        "tls_ca=/x;",
        "sf_durability=append;",
        "sf_durability=periodic;",
        "sf_sync_interval_millis=5;",
        "sf_dir=/x;sf_durability=append;sf_sync_interval_millis=5;",
        "reconnect_initial_backoff_millis=10;reconnect_max_backoff_millis=9;",
    ],
)
def test_keys_that_do_not_go_together(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse(f"ws::addr=h;{text}")


def test_what_is_left_out() -> None:
    memory, disk = parse("ws::addr=h;"), parse("wss::addr=h;sf_dir=/x;")

    assert (memory.is_disk, memory.is_tls, memory.sender_id) == (False, False, "default")
    assert memory.sf_max_total_bytes == 128 * MIB
    assert (disk.is_disk, disk.is_tls, disk.tls_verify) == (True, True, True)
    assert disk.sf_max_total_bytes == 10 * 1024 * MIB
    assert disk.sf_max_segment_bytes == 4 * MIB
    assert disk.sf_append_deadline_millis == 30_000
    assert disk.close_flush_timeout_millis == 5000
    assert not settings_of(disk).allow_network_fs
    assert settings_of(parse("ws::addr=h;sf_dir=/x;sf_allow_network_fs=on;")).allow_network_fs
    assert (disk.drain_orphans, disk.request_durable_ack) == (False, False)


@pytest.mark.parametrize(
    ("text", "segment", "total"),
    [
        ("sf_max_total_bytes=200k;", 100 * 1024, 200 * 1024),
        ("sf_max_total_bytes=8m;", 4 * MIB, 8 * MIB),
        ("sf_max_total_bytes=9m;", 4 * MIB, 9 * MIB),
        ("sf_max_segment_bytes=100m;", 100 * MIB, 200 * MIB),
        ("sf_max_segment_bytes=1m;sf_max_total_bytes=2m;", MIB, 2 * MIB),
    ],
)
def test_a_spool_holds_two_segments_and_the_size_that_was_not_given_yields(
    text: str, segment: int, total: int
) -> None:
    told = parse(f"ws::addr=h;{text}")

    assert (told.sf_max_segment_bytes, told.sf_max_total_bytes) == (segment, total)
    assert settings_of(told).cap_bytes == total


def test_two_sizes_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"sf_max_total_bytes .* at least 2097152 "):
        parse("ws::addr=h;sf_max_segment_bytes=1m;sf_max_total_bytes=2097151;")


def test_what_is_flushed_by_itself_fits_a_segment() -> None:
    assert parse("ws::addr=h;sf_max_segment_bytes=64k;").auto_flush_bytes < 64 * 1024
    with pytest.raises(InvalidArgument, match="auto_flush_bytes must be at most 64512"):
        parse("ws::addr=h;sf_max_segment_bytes=64k;auto_flush_bytes=64k;")


# Secrets.


SECRETS = ["token=hush;", "username=u;password=hush;"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "wrong", ["sf_dir=;", "on_server_error=x;", "addr=a:b:c;", "nope=1;", "token=hush;", "x"]
)
def test_no_message_has_a_secret(secret: str, wrong: str) -> None:
    for text in (f"ws::addr=h;{secret}{wrong}", f"ws::addr=h;{wrong}{secret}"):
        with pytest.raises(InvalidArgument) as caught:
            parse(text)
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "ws::addr=h;token=my;hush=1;",
        "ws::addr=h;username=u;password=my;hush=1;",
        "ws::addr=h;token=my;hush;",
        "ws::addr=me:hush@h:1;",
        "ws::addr=hush@h;",
        "ws::addr=h;token=my;failover_hush=1;",
    ],
)
def test_no_message_has_what_may_be_a_part_of_a_secret(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(text)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("secret", SECRETS)
def test_no_repr_has_a_secret(secret: str) -> None:
    assert "hush" not in repr(parse(f"ws::addr=h;{secret}"))


@given(st.text(max_size=60))
def test_any_text_is_understood_or_refused(text: str) -> None:
    for whole in (text, f"ws::{text}", f"ws::addr=h;{text}"):
        try:
            parse(whole)
        except InvalidArgument:
            continue


@given(st.text(st.characters(min_codepoint=32, exclude_characters="\x7f"), min_size=1))
def test_any_value_can_be_written_with_its_semicolons_doubled(value: str) -> None:
    told = parse(f"ws::addr=h;token={value.replace(';', ';;')};sender_id=x;")

    assert told.token == value
    assert told.sender_id == "x"
