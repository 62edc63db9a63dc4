"""`penstock features verify`: compares a table with the same table computed by Spark."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from penstock.cli import output, target
from penstock.cli.control_characters import one_line
from penstock.cli.exit_codes import ExitCode
from penstock.cli.features_history import history_of
from penstock.cli.features_spark import (
    Source,
    Tasks,
    asked,
    need_spark,
    running,
    session_of,
)
from penstock.cli.features_target import Names, Table, caught_up
from penstock.cli.options import DEFAULT_DIR, AsJson, DataDir, TokenFile, Url
from penstock.cli.spark_options import (
    Conf,
    Master,
    Memory,
    PyFiles,
    Remote,
)

if TYPE_CHECKING:  # Spark is loaded by the verbs that run it
    from penstock.spark.feature_verify import FeatureComparison

_WIDTH: Final = 78
_VALUE_CHARS: Final = 200  # of one value in an example
_KEYS: Final = 100_000


def verify(
    table: Table,
    features: Names = None,
    keys: Annotated[
        int, typer.Option("--keys", min=1, metavar="COUNT", help="Compare at most this many keys.")
    ] = _KEYS,
    source: Source = None,
    tasks: Tasks = 0,
    master: Master = "local[*]",
    remote: Remote = "",
    memory: Memory = "2g",
    conf: Conf = None,
    py_files: PyFiles = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Compare a table with the same table on Spark.

    Each row is computed again, as of the event and the time at which it was read. Values are equal
    if they have the same bits. A server may go on counting; a directory is in use until the end.
    Exit code 3 when something differs.
    """
    need_spark()
    where = target.Target(data_dir, url, token_file)
    history = history_of(where, source)
    session = session_of(master, remote, memory, conf, py_files)
    with target.existing(where) as log:
        found = asked(log, table)
        store = caught_up(log)
        doing = f"computing {table} from the events in {history.name}"
        with running(session, history, doing) as spark:
            from penstock.spark.feature_verify import verify_features

            verdict = verify_features(
                spark,
                store,
                found.document,
                table,
                history.source(spark, found.table.topic),
                features=features,
                keys_max=keys,
                buckets=tasks,
            )
    if as_json:
        output.json_line(msgspec.to_builtins(verdict) | {"equal": verdict.is_equal})
    else:
        _print(verdict)
    if not verdict.is_equal:
        raise typer.Exit(ExitCode.DAMAGE)


def _print(verdict: FeatureComparison) -> None:
    if verdict.is_equal:
        word = output.paint("equal", "green bold")
    else:
        word = output.paint("different", "red bold")
    first, last = verdict.first_seq, verdict.last_seq
    seqs = f"seq {last:,}" if first == last else f"seq {first:,} to {last:,}"
    output.line(f"{verdict.table}: {word}, {output.many(verdict.keys, 'key')}, as of {seqs}")
    rows = [
        (one.feature, f"{one.compared:,}", f"{one.different:,}" if one.different else "-")
        for one in verdict.features
    ]
    output.table(("feature", "compared", "different"), rows, right="compared different")
    for text in _texts(verdict):
        for line in textwrap.wrap(
            text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        ):
            output.line(line)


def _texts(verdict: FeatureComparison) -> Iterator[str]:
    """Examples of values that differ, and the keys that are on one side alone."""
    for one in verdict.features:
        for example in one.examples:
            online, spark = _shown(example.online), _shown(example.spark)
            yield f"{one.feature} of {_key(example.key)}: {online} online, {spark} on Spark"
    told: dict[str, Any] = msgspec.to_builtins(verdict)
    for count, examples, where in (
        ("missing_online", "missing_examples", "on Spark alone"),
        ("only_online", "only_online_examples", "online alone"),
    ):
        if told.get(count):
            keys = "; ".join(map(_key, told[examples]))
            yield f"{output.many(told[count], 'key')} {where}, such as {keys}"
    if told.get("is_whole") is False:
        yield (
            f"the table has more than {output.many(verdict.keys, 'key')}: the others were not "
            "compared, and none is known to be missing online (--keys COUNT compares more)"
        )


def _key(values: Sequence[Any]) -> str:
    return ", ".join(map(_shown, values)) or "all events"


def _shown(value: Any) -> str:
    text = one_line(output.json_text(value))
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}…"
