from __future__ import annotations

import re

from penstock.lake.project import parsed
from penstock.lake.template import FILES, PROJECT


def test_the_project_that_one_begins_with_is_a_project() -> None:
    project = parsed(PROJECT, "/p")

    assert [one.name for one in project.silver] == ["orders"]
    assert [one.sql for one in project.gold] == ["/p/revenue.sql"]
    assert set(FILES) == {"pipeline.toml", "revenue.sql"}


def test_the_settings_that_are_commented_out_are_settings_too() -> None:
    text = re.sub(r"^# (\w+ = )", r"\1", PROJECT, flags=re.MULTILINE)
    text = re.sub(r"^(url|token_env) = .*$", "", text, flags=re.MULTILINE)

    project = parsed(text, "/p")

    assert project.silver[0].evolve
    assert not project.silver[0].applies_deletes
