"""What changes between two definitions, and what that costs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from penstock.errors import ForceRequired
from penstock.features.definition import Definition
from penstock.features.definition_writer import to_json

ChangeKind = Literal["added", "changed", "removed"]
NodeKind = Literal["event", "derived", "table", "feature"]
ChangeCost = Literal["nothing", "rebuilt", "lost"]
"""State is kept; or built anew from the records of the topic; or gone, wholly or in part, since it
is removed or since the topic no longer has all of its records."""

_NODES: tuple[tuple[str, NodeKind], ...] = (
    ("events", "event"),
    ("derived", "derived"),
    ("tables", "table"),
)


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """One node, or one feature of a table (`name` is then table.feature)."""

    kind: ChangeKind
    node: NodeKind
    name: str
    cost: ChangeCost
    is_destructive: bool  # it takes something away that may be in use: it needs force
    members: Mapping[str, tuple[Any, Any]]  # of its JSON: before and after; empty unless changed
    why: str

    def to_json(self) -> dict[str, Any]:
        """As the answer to a registration."""
        found: dict[str, Any] = {"change": self.kind, "node": self.node, "name": self.name}
        found |= {"cost": self.cost, "is_destructive": self.is_destructive, "why": self.why}
        if self.members:
            found["members"] = {
                member: {"from": old, "to": new} for member, (old, new) in self.members.items()
            }
        return found


def differences(
    old: Definition, new: Definition, *, short_topics: Collection[str] = ()
) -> tuple[DefinitionChange, ...]:
    """What changes from one definition to the other: events, derived events, tables with their
    features, each in the order of names. What is built anew from a topic that no longer has all of
    its records (`short_topics`) may lose what the missing ones had added."""
    before, after = to_json(old.nodes), to_json(new.nodes)
    changes: list[DefinitionChange] = []
    for kind, node in _NODES:
        earlier = {one["name"]: one for one in before[kind]}
        later = {one["name"]: one for one in after[kind]}
        for name in sorted({*earlier, *later}):
            if name not in later:
                changes.append(_removed(node, name))
            elif name not in earlier:
                changes.append(_added(node, name, _topic_is_short(new, name, short_topics)))
            elif node == "table":
                is_short = _topic_is_short(new, name, short_topics)
                changes += _table_changes(old, new, earlier[name], later[name], is_short)
            elif earlier[name] != later[name]:
                changes.append(_changed_node(node, earlier[name], later[name]))
    return tuple(changes)


def check_changes(changes: Iterable[DefinitionChange]) -> None:
    """Raise ForceRequired if one of them is destructive."""
    destructive = [change for change in changes if change.is_destructive]
    if destructive:
        first = destructive[0]
        more = f" (and {len(destructive) - 1} more)" if len(destructive) > 1 else ""
        raise ForceRequired(
            f"{first.node} {first.name!r} would be {first.kind}: {first.why}{more}; "
            "`force` permits it",
            changes=[change.to_json() for change in destructive],
        )


def _topic_is_short(new: Definition, table: str, short_topics: Collection[str]) -> bool:
    return table in new.tables and new.plan(table).event.topic in short_topics


def _added(node: NodeKind, name: str, is_short: bool) -> DefinitionChange:
    if node in ("event", "derived"):
        return DefinitionChange("added", node, name, "nothing", False, {}, "it is new")
    why = "it is built from the records that the topic still has" if is_short else "it is built"
    return DefinitionChange("added", node, name, "rebuilt", False, {}, why)


def _removed(node: NodeKind, name: str) -> DefinitionChange:
    cost: ChangeCost = "nothing" if node in ("event", "derived") else "lost"
    why = "its values are removed" if cost == "lost" else "its records stay"
    return DefinitionChange("removed", node, name, cost, True, {}, why)


def _changed_node(node: NodeKind, old: dict[str, Any], new: dict[str, Any]) -> DefinitionChange:
    """An event or derived event. What it costs the tables is said with each table."""
    name, members = old["name"], _members(old, new)
    why = _harm(old, new) if node == "event" else ""
    return DefinitionChange(
        "changed", node, name, "nothing", bool(why), members, why or "see the tables of it"
    )


def _harm(old: dict[str, Any], new: dict[str, Any]) -> str:
    """What makes events invalid that were valid, or takes them from another place."""
    if old["topic"] != new["topic"]:
        return f"its topic was {old['topic']!r}"
    for name, declared in old["fields"].items():
        if name not in new["fields"]:
            return f"the field {name!r} is removed"
        if _type(declared) != _type(new["fields"][name]):
            return f"the field {name!r} was of type {_type(declared)}"
    for name, declared in new["fields"].items():
        is_required = isinstance(declared, str)
        if is_required and not isinstance(old["fields"].get(name), str):
            return f"events without the field {name!r} were valid"
    return ""


def _type(declared: Any) -> str:
    return declared if isinstance(declared, str) else str(declared["type"])


def _table_changes(
    old: Definition,
    new: Definition,
    earlier: dict[str, Any],
    later: dict[str, Any],
    is_short: bool,
) -> Iterator[DefinitionChange]:
    name = str(earlier["name"])
    before, after = old.shape(name), new.shape(name)
    members = _members(_without_features(earlier), _without_features(later))
    is_grouped_anew = before.base != after.base
    if members or is_grouped_anew:
        has_other_key = "key" in members
        cost: ChangeCost = "nothing"
        if is_grouped_anew:
            cost = "lost" if is_short else "rebuilt"
        why = "it has another key" if has_other_key else "its events are grouped in another way"
        yield DefinitionChange(
            "changed",
            "table",
            name,
            cost,
            has_other_key or cost == "lost",
            members,
            why if is_grouped_anew else "its values stay",
        )
    for feature in sorted({*before.features, *after.features}):
        full = f"{name}.{feature}"
        if feature not in after.features:
            yield _removed("feature", full)
        elif feature not in before.features:
            yield _added("feature", full, is_short)
        else:
            members = _members(earlier["features"][feature], later["features"][feature])
            is_other = before.features[feature] != after.features[feature]
            if not members and not is_other:
                continue
            cost = "nothing"
            if is_other:
                cost = "lost" if is_short else "rebuilt"
            why = "it is computed in another way" if is_other else "its values stay"
            is_lost = cost == "lost"
            yield DefinitionChange("changed", "feature", full, cost, is_lost, members, why)


def _without_features(table: dict[str, Any]) -> dict[str, Any]:
    return {member: value for member, value in table.items() if member != "features"}


def _members(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {
        member: (old.get(member), new.get(member))
        for member in sorted({*old, *new})
        if old.get(member) != new.get(member)
    }
