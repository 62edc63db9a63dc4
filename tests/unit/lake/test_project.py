from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.lake.evolution import Column
from penstock.lake.project import parsed

SOURCE = '[source]\npath = "data"\ntopics = ["orders", "clicks.*"]\n'
SILVER = '[silver.orders]\ntopics = "orders"\n[silver.orders.columns]\nid = "long"\n'


def test_a_small_project_has_defaults_for_the_rest() -> None:
    project = parsed(SOURCE, "/p")

    assert project.source.path == "/p/data"
    assert project.lake.path == "/p/lake"
    assert project.lake.batch_records == 2_000_000
    assert project.compaction.files_min == 8
    assert [project.source.matches(t) for t in ("orders", "clicks.eu", "other")] == [
        True,
        True,
        False,
    ]


def test_columns_are_a_type_or_a_table() -> None:
    text = SILVER + 'when = { type = "timestamp", from = "ts", required = true }\n'

    (silver,) = parsed(SOURCE + text, "/p").silver

    assert silver.columns == (
        Column("id", "long", "id"),
        Column("when", "timestamp", "ts", True),
    )
    assert silver.applies_deletes
    assert not silver.evolve


def test_a_server_may_be_read_together_with_its_directory() -> None:
    text = SOURCE.replace("topics", 'url = "http://h"\ntoken_env = "T"\ntopics')

    source = parsed(text, "/p").source

    assert (source.path, source.url, source.token_env) == ("/p/data", "http://h", "T")


def test_gold_is_sql_or_python() -> None:
    text = '[gold.a]\nsql = "a.sql"\n[gold.b]\npython = "g.py:make"\n'

    a, b = parsed(SOURCE + text, "/p").gold

    assert a.sql == "/p/a.sql"
    assert b.python == "/p/g.py:make"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[source", "not TOML"),
        ("", "source is missing: set source.path"),
        ('[source]\nurl = "ftp://h"\ntopics = "a"\n', "source.url must begin with http://"),
        ('[source]\npath = "a"\n', "source.topics is missing"),
        (
            '[source]\npath = "a"\ntopics = ["a b"]\n',
            "source.topics: 'a b' is neither a topic name",
        ),
        ('[source]\npath = "a"\ntopics = "a"\ntoken_env = "T"\n', "source.token_env needs"),
        (SOURCE.replace("path", "pth"), "unknown key source.pth: did you mean path?"),
        (SOURCE + "[silvr.x]\n", "unknown key silvr: did you mean silver?"),
        (SOURCE + "[lake]\nbatch_records = 0\n", "lake.batch_records must be a whole number of at"),
        (SOURCE + "[lake]\nkeep_versions = true\n", "lake.keep_versions must be a whole number"),
        (SOURCE + '[lake]\npath = "a*"\n', "lake.path must have none of"),
        (SOURCE + "[compaction]\nfiles_min = 1\n", "compaction.files_min must be"),
        (SOURCE + "[compaction]\ntarget_bytes = 5\n", "compaction.small_bytes must not be above"),
        (SOURCE + "[silver.Orders]\n", "silver.Orders: a table's name"),
        (SOURCE + "[silver.bronze]\n", "is not bronze or gaps"),
        (SOURCE + '[silver.o]\ntopics = "o"\n', "silver.o.columns is missing"),
        (SOURCE + SILVER + 'seq = "long"\n', "silver.orders.columns.seq: records have a column"),
        (SOURCE + SILVER + 'ID = "long"\n', "in other letter case"),
        (SOURCE + SILVER + 'x = { type = "long", from = "id" }\n', "has from = 'id' already"),
        (SOURCE + SILVER + 'x = "lng"\n', "silver.orders.columns.x: unknown type 'lng'"),
        (SOURCE + SILVER + "x = {}\n", "silver.orders.columns.x.type is missing"),
        (SOURCE + SILVER + 'x = { kind = "a" }\n', "unknown key silver.orders.columns.x.kind"),
        (SOURCE + '[silver.o]\ntopics="o"\ndeletes="no"\ncolumns={a="int"}\n', "silver.o.deletes"),
        (SOURCE + "[gold.x]\n", "gold.x needs either sql"),
        (SOURCE + '[gold.x]\npython = "a.py"\n', "gold.x.python must have the form"),
        (SOURCE + SILVER + '[gold.orders]\nsql = "a"\n', "a silver table has this name"),
        (SOURCE + SILVER + '[gold.orders_quarantine]\nsql = "a"\n', "a quarantine has this name"),
        (SOURCE + SILVER + SILVER.replace("orders", "orders_quarantine"), "a quarantine has this"),
        (SOURCE + SILVER + 'epoch_of_file = "long"\n', "uses the name 'epoch_of_file' itself"),
        (
            SOURCE + SILVER + 'x = { type = "long", from = "__bad" }\n',
            "columns.x.from: the",
        ),
        (SOURCE + SILVER + '"a\\tb" = "long"\n', "invalid column name 'a\\tb'"),
        (SOURCE + SILVER + '" " = "long"\n', "invalid column name ' '"),
        (SOURCE + "silver = 3\n", "unknown key source.silver"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(text: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parsed(text, "/p")

    assert says in str(caught.value)
