"""Scratch folders: where they are, when one warns, and that nothing of them is left."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli import scratch as module
from penstock.cli.scratch import remove, scratch


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, for this test."""
    path = tmp_path / "system"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # Python looks once only
    return path


def fill(folder: str) -> None:
    path = Path(folder) / "some" / "deep"
    path.mkdir(parents=True)
    (path / "file").write_text("data")


def work(job: Callable[[], None]) -> None:
    with scratch(None, "bench") as folder:
        fill(folder)
        job()


# Where.


def test_a_scratch_folder_is_below_the_system_s_temporary_folder(system: Path) -> None:
    with scratch(None, "bench") as folder:
        fill(folder)
        found = list(system.iterdir())

    assert found == [Path(folder)]
    assert found[0].name.startswith("penstock-bench-")
    assert not list(system.iterdir())


def test_a_folder_that_is_given_is_used_instead(
    system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("given").mkdir()

    with scratch(Path("given"), "demo") as folder:
        assert Path(folder).parent == tmp_path / "given"
        assert not list(system.iterdir())

    assert not list((tmp_path / "given").iterdir())


# Removal.


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_it_is_removed_after_an_error(system: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(error):
        work(fail)

    assert not list(system.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_process_removes_it(system: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)

    with pytest.raises(SystemExit) as ended:
        work(lambda: signal.raise_signal(number))

    assert ended.value.code == 128 + number
    assert not list(system.iterdir())
    assert signal.getsignal(number) == before


def test_a_signal_that_was_ignored_stays_ignored(system: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with scratch(None, "bench"):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_ctrl_c_does_not_interrupt_the_removal(
    system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with scratch(None, "bench") as folder:
            fill(folder)
            monkeypatch.setattr(module, "remove", interrupted)
        handler = signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)

    assert not list(system.iterdir())
    assert handler is signal.default_int_handler


def interrupted(path: str) -> None:
    signal.raise_signal(signal.SIGINT)
    remove(path)


def test_removal_is_tried_again_while_files_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(str(tmp_path / "a"))
    tries = iter([False, True])
    really = shutil.rmtree

    def once_in_vain(path: str, ignore_errors: bool) -> None:
        if next(tries):
            really(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", once_in_vain)
    remove(str(tmp_path / "a"))

    assert not (tmp_path / "a").exists()


def test_a_folder_that_cannot_be_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
    monkeypatch.setattr(module, "_REMOVAL_WAIT_S", 0)

    remove(str(tmp_path))

    said = f"penstock: warning: cannot remove the scratch folder {tmp_path}; remove it by hand\n"
    assert capsys.readouterr().err == said


# Memory.


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs"])
def test_one_line_warns_of_a_folder_in_memory(
    kind: str, system: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "kind_of_filesystem", lambda path: kind)

    with scratch(None, "bench"):
        pass

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"penstock: warning: the scratch folder {system} is on {kind}: ")
    assert "pass --dir with a folder on a real disk" in said.err


@pytest.mark.parametrize("kind", ["ext4", ""])
def test_nothing_is_said_of_a_folder_on_a_disk_or_on_a_system_that_does_not_tell(
    kind: str, system: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "kind_of_filesystem", lambda path: kind)

    with scratch(None, "bench"):
        pass

    assert capsys.readouterr() == ("", "")
