"""What a task computes."""

from __future__ import annotations

import copy

import pytest

from penstock.errors import InvalidArgument
from penstock.features.definition import Definition
from penstock.spark.feature_job import job_of
from tests.support import feature_history

DOCUMENT = feature_history.document()


def test_a_job_has_all_features_in_their_order() -> None:
    job = job_of(DOCUMENT, "T")

    assert job.features == tuple(feature_history.features())
    assert {one.name for one in job.plan.features} == set(job.features)


def test_a_job_has_the_wanted_features_once_in_the_wanted_order() -> None:
    job = job_of(Definition.parse(DOCUMENT), "T", ["sum", "count", "sum"])

    assert job.features == ("sum", "count")
    assert {one.name for one in job.plan.features} == {"sum", "count"}
    assert list(Definition.parse(job.definition).tables) == ["T"]


def test_equal_definitions_give_equal_jobs() -> None:
    turned = copy.deepcopy(DOCUMENT)
    turned["tables"].reverse()

    assert job_of(DOCUMENT, "T", ["sum"]) == job_of(turned, "T", ["sum"])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="unknown table 'U'"):
        job_of(DOCUMENT, "U")
    with pytest.raises(InvalidArgument, match="table 'T' has no feature 'summ'; did you mean"):
        job_of(DOCUMENT, "T", ["summ"])
