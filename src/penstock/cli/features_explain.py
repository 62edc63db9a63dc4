"""`penstock features explain`: how a table is computed, and how far it is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.cli import output, target
from penstock.cli.control_characters import one_line
from penstock.cli.features_target import Table, caught_up, document_of
from penstock.cli.options import DEFAULT_DIR, AsJson, DataDir, TokenFile, Url
from penstock.errors import InvalidArgument
from penstock.feature_types import FeaturePartStatus, FeatureTableStatus

if TYPE_CHECKING:
    from penstock.features.definition import Definition
    from penstock.features.table_plan import FeaturePlan, TablePlan

_WIDTH: Final = 78
_REASONS_SHOWN: Final = 3  # of bad records
_CALL_CHARS_MIN: Final = 14  # of a column that is broken into lines
_MARKS: Final = {
    "committed": "visible to readers",
    "written": "survive a kill of the process",
    "synced": "survive a power cut",
    "acked": "acknowledged to those who pushed",
    "applied": "counted in the rows",
    "snapshot": "in the saved state",
}
_GAPS: Final = {
    "accept": "lost records are counted",
    "rebuild": "after a loss the table is built from what is left",
    "fail": "after a loss the table stops",
}
_FATES: Final = {
    "events": "counted",
    "filtered": "did not pass a step",
    "ignored": "had no key",
    "late": "came too late",
    "bad": "did not fit the schema, or were too far ahead",
    "lost": "gone before they could be read",
}


def explain(
    table: Table,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Show how a feature table is computed, and how far it is.

    Printed are its event, steps, operators and windows; its keys and memory; what became of the
    records; and its positions in the topic.
    """
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        status = caught_up(log).table(table)
        document = document_of(log)
        target.end_reading(log)
    definition = _definition(document)
    plan = definition.plan(table)
    if as_json:
        (node,) = (one for one in document["tables"] if one["name"] == table)
        features = {one.name: _feature_json(one) for one in plan.features}
        output.json_line({"table": status, "definition": node, "features": features})
        return
    name = output.paint(table, "bold")
    key = f"by {' and '.join(plan.key)}" if plan.key else "over all events"
    output.line(f"{name}: {output.many(len(plan.features), 'feature')} {key}, {status.state}")
    for title, lines in (
        (f"Events: {plan.event.name}", _events(definition, plan)),
        ("Features (bytes: of one key, at most)", _features(plan)),
        ("State", _state(status)),
        (f"Positions in topic {status.topic}", _positions(status)),
    ):
        output.line()
        output.line(output.paint(title, "bold"))
        for line in lines:
            output.line(f"  {line}")
    if len(status.parts) > 1:
        output.line()
        output.line(output.paint("Parts", "bold"))
        heads = ("part", "state", "applied", "keys", "memory", "features")
        output.table(heads, _parts(status.parts, heads), right="applied keys memory")


def _definition(document: Mapping[str, Any]) -> Definition:
    try:
        from penstock.features.definition import Definition
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            f"features need the package {error.name}: pip install 'penstock[features]'"
        ) from None
    return Definition.parse(document)


# How it is computed.


def _events(definition: Definition, plan: TablePlan) -> Iterator[str]:
    event = plan.event
    fields = [
        f"{name} {one.type}{' or null' if one.is_optional else ''}"
        for name, one in event.fields.items()
    ]
    pairs = [("topic", event.topic), ("fields", ", ".join(fields))]
    if event.time is None:
        pairs.append(("time", "when the log took the record"))
    else:
        late = f", at most {_ms(event.time.lateness_ms)} late" if event.time.lateness_ms else ""
        ahead = f", at most {_ms(event.time.ahead_ms)} ahead"
        pairs.append(("time", f"{event.time.field}{late}{ahead}"))
    if event.dedupe is not None:
        pairs.append(("once per", f"{event.dedupe.field} within {_ms(event.dedupe.window_ms)}"))
    pairs.append(("gaps", f"{_GAPS[plan.on_gap]} ({plan.on_gap})"))
    synced = event.sync == "per_event"
    pairs.append(("push", f"returns {'after' if synced else 'before'} the sync ({event.sync})"))
    if plan.cold_after_ms is not None:
        pairs.append(("rows", f"removed {_ms(plan.cold_after_ms)} after their last event"))
    pairs += _steps(definition, plan.name)
    yield from _pairs(pairs)


def _steps(definition: Definition, table: str) -> list[tuple[str, str]]:
    from penstock.features.definition_writer import step_json

    node = definition.tables[table]
    found = []
    for derived in definition.nodes.upstreams(node.upstream):
        found += [(f"{derived.name}", _step(step_json(step))) for step in derived.steps]
    return found + [("step", _step(step_json(step))) for step in node.steps]


def _step(step: dict[str, Any]) -> str:
    rest = [_step_value(value) for name, value in step.items() if name != "op"]
    return f"{step['op']} {' '.join(rest)}"


def _step_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {one}" for name, one in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)


def _features(plan: TablePlan) -> Iterator[str]:
    rows = [("feature", "computed as", "window", "value", "bytes")]
    rows += [
        (
            one.name,
            _call(one),
            _window(one),
            one.output,
            f"{_row_bytes(one):,}",
        )
        for one in plan.features
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[1] = max(_CALL_CHARS_MIN, min(widths[1], _WIDTH - _joined(widths) + widths[1]))
    for number, (name, call, *rest, size) in enumerate(rows):
        first, *more = textwrap.wrap(call, widths[1])
        cells = zip([name, first, *rest], widths, strict=False)
        line = "  ".join([*(cell.ljust(width) for cell, width in cells), size.rjust(widths[-1])])
        yield output.paint(line, "dim") if number == 0 else line
        for text in more:
            yield f"{' ' * widths[0]}  {text}"
    for one in plan.features:
        if one.where is not None:
            yield from _wrapped(f"{one.name}: only events with {one.where.expression}")
        if one.kind.error:
            yield from _wrapped(f"{one.name}: {one.kind.error}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(one_line(text), _WIDTH, subsequent_indent="  ")


def _call(feature: FeaturePlan) -> str:
    parameters = [
        f"{name}={output.json_text(value)}"
        for name, value in feature.arguments.parameters.items()
        if value != next(p.default for p in feature.kind.parameters if p.name == name)
    ]
    return f"{feature.kind.name}({', '.join([*feature.fields, *parameters])})"


def _window(feature: FeaturePlan) -> str:
    given = feature.window.to_json()
    if not isinstance(given, dict):
        return str(given or "-")
    return " ".join(f"{name} {value}" for name, value in given.items())


def _row_bytes(feature: FeaturePlan) -> int:
    """Of a key whose windows are full."""
    rows = 1 if feature.kind.is_self_windowed else feature.window.buckets_max
    return rows * feature.kind.row_bytes(feature.arguments)


def _feature_json(feature: FeaturePlan) -> dict[str, Any]:
    return {
        "operator": feature.kind.name,
        "fields": feature.fields,
        "parameters": feature.arguments.parameters,
        "window": feature.window.to_json(),
        "where": None if feature.where is None else str(feature.where.expression),
        "output": feature.output,
        "error": feature.kind.error,
        "bytes_per_key_max": _row_bytes(feature),
    }


# How far it is.


def _state(status: FeatureTableStatus) -> Iterator[str]:
    parts = status.parts
    keys = max((part.keys for part in parts), default=0)
    moved = max((part.keys_on_disk for part in parts), default=0)
    memory = sum(part.bytes for part in parts)
    held = keys - moved
    a_key = f", {output.size(memory / held)} a key" if held else ""
    most = output.size(sum(part.bytes_max for part in parts))
    pairs = [
        ("keys", f"{keys:,}" + (f", {moved:,} of them on disk" if moved else "")),
        ("memory", f"{output.size(memory)} of at most {most}{a_key}"),
    ]
    if any(part.evicted for part in parts):
        evicted, back = (sum(getattr(p, name) for p in parts) for name in ("evicted", "reloaded"))
        disk = output.size(sum(part.disk_bytes for part in parts))
        pairs.append(("on disk", f"{disk}; {evicted:,} keys were moved there, {back:,} came back"))
    ids = status.ids
    if ids is not None:
        used, most = output.size(ids.bytes), output.size(ids.bytes_max)
        pairs.append(("ids", f"{ids.ids:,} in {used} of at most {most}"))
        pairs += [("ids", f"failed: {ids.reason}")] if ids.reason else []
    pairs += [("records", text) for text in _fates(parts)]
    bad = max((part.bad_reasons for part in parts), key=len, default=[])
    pairs += [("bad", reason) for reason in bad[:_REASONS_SHOWN]]
    ready = max((part.ready_ms for part in parts), default=0.0)
    pairs.append(("ready", f"{ready:,.0f} ms after its start" if ready else "not yet"))
    saved = sum(part.snapshot_bytes for part in parts)
    if saved:
        took = max(part.snapshot_ms for part in parts)  # 0: an earlier process saved it
        oldest = output.moment(min(part.snapshot_ts for part in parts if part.snapshot_bytes))
        pairs.append(
            ("saved", f"{output.size(saved)}{f' in {took:,.0f} ms' if took else ''}, {oldest}")
        )
    rebuilds = sum(part.rebuilds for part in parts)
    if rebuilds:
        pairs.append(("built anew", output.many(rebuilds, "time")))
    pairs += [("failed", part.reason) for part in parts if part.reason]
    yield from _pairs(pairs)


def _fates(parts: Sequence[FeaturePartStatus]) -> Iterator[str]:
    """What became of the records. All parts read the same: the one that read most tells it."""
    most = max(parts, key=lambda part: sum(part.counters.values()), default=None)
    if most is not None:
        told = [(name, f"{most.counters.get(name, 0):,} {text}") for name, text in _FATES.items()]
        yield ", ".join(text for name, text in told if name == "events" or most.counters.get(name))


def _positions(status: FeatureTableStatus) -> Iterator[str]:
    marks = msgspec.structs.asdict(status.watermarks)
    width = max(len(f"{value:,}") for value in marks.values())
    for name, meaning in _MARKS.items():
        yield f"{name.ljust(9)}  {f'{marks[name]:,}'.rjust(width)}  {output.paint(meaning, 'dim')}"


def _parts(parts: Sequence[FeaturePartStatus], heads: Sequence[str]) -> list[tuple[str, ...]]:
    """A row for each part, and more rows where its features need more lines than one."""
    known = [
        (
            part.id,
            part.state,
            "-" if part.applied is None else f"{part.applied.seq:,}",
            f"{part.keys:,}",
            output.size(part.bytes),
        )
        for part in parts
    ]
    widths = [max(map(len, column)) for column in zip(heads[:-1], *known, strict=True)]
    left = max(_CALL_CHARS_MIN, _WIDTH - _joined(widths))
    rows: list[tuple[str, ...]] = []
    for part, cells in zip(parts, known, strict=True):
        first, *more = textwrap.wrap(" ".join(part.features), left, break_on_hyphens=False) or [""]
        rows.append((*cells, first))
        rows += [(*([""] * len(cells)), text) for text in more]
    return rows


def _joined(widths: Sequence[int]) -> int:
    """The width of these columns beside each other."""
    return sum(widths) + 2 * len(widths)


def _pairs(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        first, *rest = textwrap.wrap(one_line(value), _WIDTH - width - 4) or [""]
        yield f"{output.paint(name.ljust(width), 'dim')}  {first}"
        for line in rest:
            yield f"{' ' * width}  {line}"


def _ms(length_ms: int) -> str:
    from penstock.features.durations import duration_text

    return duration_text(length_ms)
