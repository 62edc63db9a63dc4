"""The host: definitions in the log, one folder each, and nothing left of what was dropped."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock import limits
from penstock.clock import Clock
from penstock.errors import Closed, InvalidArgument, ProjectionFailed
from penstock.projections.host import ProjectionDefinition, ProjectionHost
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Offset
from tests.unit.projections.support import Adder, ListTail


class ListLog:
    """Topics and definitions in memory."""

    folder = "/data/projections"
    is_threaded = False
    is_writable = True

    def __init__(self) -> None:
        self.fs = MemoryFilesystem()
        self.clock: Clock = FakeClock()
        self.topics: dict[str, ListTail] = {}
        self.records: dict[int, bytes] = {}
        self.next_seq = 1
        self.removed_before = True

    def tail(self, topic: str) -> ListTail:
        return self.topics.setdefault(topic, ListTail(b"1", b"2"))

    def definitions(self) -> list[tuple[int, bytes]]:
        return sorted(self.records.items())

    def add_definition(self, text: bytes) -> int:
        self.records[self.next_seq] = text
        self.next_seq += 1
        return self.next_seq - 1

    def remove_definitions(self, seqs: list[int]) -> None:
        if self.removed_before:
            for seq in seqs:
                del self.records[seq]


def adder(definition: ProjectionDefinition) -> Adder:
    if bytes(definition.definition) == b'"bad"':
        raise InvalidArgument("bad definition")
    return Adder(definition=bytes(definition.definition))


def host_of(log: ListLog) -> ProjectionHost:
    host = ProjectionHost(log)
    host.register("adder", adder)
    return host


def names(host: ProjectionHost) -> list[str]:
    return [held.definition.name for held in host.all("adder")]


def total(host: ProjectionHost, name: str) -> int:
    held = host.find("adder", name)
    assert held is not None
    held.runner.read_own()
    state = held.runner.projection
    assert isinstance(state, Adder)
    return state.sum


def test_what_is_created_is_there_after_a_restart_with_its_state() -> None:
    log = ListLog()
    host = host_of(log)
    created = host.create("adder", "a", "t", b"{}", on_gap="fail", bytes_max=1000)
    host.create("adder", "b", "u", b"{}")
    assert total(host, "a") == 3
    host.close()

    again = host_of(log)

    held = again.find("adder", "a")
    assert held is not None
    assert held.definition == created.definition
    assert (names(again), held.definition.on_gap) == (["a", "b"], "fail")
    held.runner.restore()
    assert (held.runner.applied, held.runner.counts.records) == (Offset(1, 2), 0)


def test_a_definition_of_an_unknown_kind_waits_until_it_is_registered() -> None:
    log = ListLog()
    host_of(log).create("adder", "a", "t", b"{}")

    again = ProjectionHost(log)
    assert again.all("adder") == []
    again.register("adder", adder)

    assert names(again) == ["a"]
    assert log.records


def test_a_name_is_taken_once_for_each_kind() -> None:
    host = host_of(ListLog())
    host.create("adder", "a", "t", b"{}")

    with pytest.raises(InvalidArgument, match="exists"):
        host.create("adder", "a", "u", b"{}")


def test_a_definition_that_is_refused_is_not_stored() -> None:
    log = ListLog()
    host = host_of(log)

    with pytest.raises(InvalidArgument, match="bad definition"):
        host.create("adder", "a", "t", b'"bad"')

    assert (log.records, names(host)) == ({}, [])


def test_there_is_a_largest_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROJECTIONS_MAX", 2)
    host = host_of(ListLog())
    host.create("adder", "a", "t", b"{}")
    host.create("adder", "b", "t", b"{}")

    with pytest.raises(InvalidArgument, match="drop one first"):
        host.create("adder", "c", "t", b"{}")


@pytest.mark.parametrize(
    ("changes", "folded_again"),
    [({"on_gap": "rebuild"}, False), ({"definition": msgspec.Raw(b"[]")}, True)],
)
def test_a_change_is_kept_and_only_another_definition_is_folded_again(
    changes: dict[str, Any], folded_again: bool
) -> None:
    log = ListLog()
    host = host_of(log)
    first = host.create("adder", "a", "t", b"{}")
    total(host, "a")

    host.change("adder", "a", **changes)

    assert total(host, "a") == 3
    held = host.find("adder", "a")
    assert held is not None
    assert (held.runner is not first.runner) is folded_again
    assert held.runner.counts.records == 2
    assert (held.definition.id, len(log.records)) == (first.definition.id, 1)
    host.close()
    again = host_of(log).find("adder", "a")
    assert again is not None
    assert again.definition == held.definition


def test_a_crash_in_the_middle_of_a_change_leaves_the_newer_definition() -> None:
    log = ListLog()
    host = host_of(log)
    host.create("adder", "a", "t", b"{}")
    log.removed_before = False
    host.change("adder", "a", on_gap="fail")
    assert len(log.records) == 2
    log.removed_before = True

    again = host_of(log)

    held = again.find("adder", "a")
    assert held is not None
    assert (held.definition.on_gap, held.definition.id, list(log.records)) == ("fail", 1, [2])


def test_a_dropped_one_leaves_no_record_and_no_file() -> None:
    log = ListLog()
    host = host_of(log)
    host.create("adder", "a", "t", b"{}")
    held = host.find("adder", "a")
    assert held is not None
    held.runner.read_own()
    assert held.runner.save()

    assert host.drop("adder", "a")

    assert (log.records, log.fs.list(log.folder), host.find("adder", "a")) == ({}, [], None)
    assert not host.drop("adder", "a")
    assert log.topics["t"].listeners == []
    assert not held.runner.save()


def test_the_folder_of_one_that_was_dropped_before_a_crash_is_removed() -> None:
    log = ListLog()
    host = host_of(log)
    host.create("adder", "a", "t", b"{}")
    for stray in ("77", "notes"):
        log.fs.make_dirs(f"{log.folder}/{stray}")
        log.fs.create(f"{log.folder}/{stray}/state.bin").close()

    host_of(log)

    assert log.fs.list(log.folder) == ["notes"]


@pytest.mark.parametrize("is_writable", [True, False])
def test_what_a_kill_left_of_a_save_is_removed_with_the_next_opening_for_writing(
    is_writable: bool,
) -> None:
    log = ListLog()
    host = host_of(log)
    host.create("adder", "a", "t", b"{}")
    total(host, "a")
    host.close()
    folder = f"{log.folder}/1"
    for stray in ("state.bin.tmp", "evicted.tmp", "notes"):
        log.fs.create(f"{folder}/{stray}").close()
    log.is_writable = is_writable

    again = ProjectionHost(log)  # of a log whose kinds are not registered yet

    left = {"state.bin", "notes"} | (set() if is_writable else {"state.bin.tmp", "evicted.tmp"})
    assert set(log.fs.list(folder)) == left
    again.register("adder", adder)
    assert total(again, "a") == 3


def test_a_name_that_was_free_again_has_a_folder_of_its_own() -> None:
    host = host_of(ListLog())
    first = host.create("adder", "a", "t", b"{}")
    host.drop("adder", "a")

    second = host.create("adder", "a", "t", b"{}")

    assert first.definition.id != second.definition.id


def test_a_failed_one_is_rebuilt_by_name() -> None:
    log = ListLog()
    host = host_of(log)
    host.create("adder", "a", "t", b"{}", on_gap="fail")
    total(host, "a")
    log.topics["t"].lose(1)
    host.upkeep()
    held = host.find("adder", "a")
    assert held is not None
    assert held.runner.status.state == "failed"

    assert host.rebuild("adder", "a")
    assert total(host, "a") == 3
    assert not host.rebuild("adder", "b")


def test_a_closed_one_refuses_changes() -> None:
    host = host_of(ListLog())
    host.close()
    host.close()

    with pytest.raises(Closed):
        host.create("adder", "a", "t", b"{}")
    with pytest.raises(Closed):
        host.drop("adder", "a")


def test_one_that_needs_too_much_memory_stops() -> None:
    log = ListLog()
    host = host_of(log)
    held = host.create("adder", "a", "t", b"{}", bytes_max=23)
    host.upkeep()

    assert "needs 24 bytes" in held.runner.status.reason


def test_another_gap_policy_and_bound_hold_from_the_next_record_on() -> None:
    log = ListLog()
    host = host_of(log)
    held = host.create("adder", "a", "t", b"{}")
    total(host, "a")

    assert host.change("adder", "a", on_gap="fail", bytes_max=77) is held

    assert (held.runner.options.on_gap, held.runner.options.bytes_max) == ("fail", 77)
    assert (held.definition.on_gap, held.seq) == ("fail", 2)
    log.topics["t"].lose(1)
    with pytest.raises(ProjectionFailed, match="the gap policy is fail"):
        total(host, "a")
    host.change("adder", "a", on_gap="accept")
    assert total(host, "a") == 3
    assert held.runner.status.counts.lost_seqs == 1
