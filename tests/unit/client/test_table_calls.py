from __future__ import annotations

import json

import pytest

from penstock.client import table_calls
from penstock.client.http import HttpResponse
from penstock.errors import InvalidArgument, TableNotFound
from penstock.types import Offset


def answer(body: object, status: int = 200) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json"}, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("a/b ä", "/v0/tables/t/rows/a%2Fb%20%C3%A4?key_type=text"),
        (-5, "/v0/tables/t/rows/-5?key_type=int"),
        (True, "/v0/tables/t/rows/true?key_type=bool"),
    ],
)
def test_a_key_has_its_type_in_the_url(key: bool | int | str, target: str) -> None:
    assert table_calls.row("t", key, eventual=False).target == target


def test_a_missing_row_is_none_and_a_missing_table_an_error() -> None:
    call = table_calls.row("t", "a", eventual=True)
    no_row = answer({"error": {"code": "row_not_found", "message": "no"}}, 404)
    no_table = answer(
        {"error": {"code": "table_not_found", "message": "no", "detail": {"table": "t"}}}, 404
    )

    assert call.parse(no_row, "here") is None
    with pytest.raises(TableNotFound):
        call.parse(no_table, "here")


def test_what_cannot_be_a_key_or_a_name_is_not_sent() -> None:
    with pytest.raises(InvalidArgument, match="invalid key"):
        table_calls.row("t", 1.5, eventual=False)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="invalid table name"):
        table_calls.get("")
    with pytest.raises(InvalidArgument, match="limit"):
        table_calls.rows("t", "", None, 0, eventual=False)


def test_a_page_goes_on_after_a_key_of_any_type() -> None:
    call = table_calls.rows("t", "p", 7, 10, eventual=True)

    assert call.target == (
        "/v0/tables/t/rows?prefix=p&limit=10&after=7&after_type=int&eventual=true"
    )
    page = call.parse(
        answer({"rows": [], "count": 3, "offset": {"epoch": 1, "seq": 2}, "next_after": True}), "x"
    )
    assert (page.offset, page.next_after, page.count) == (Offset(1, 2), True, 3)


def test_a_watch_begins_at_an_offset() -> None:
    assert table_calls.watch_url("t", Offset(3, 4)) == "/v0/tables/t/watch?epoch=3&seq=4"
    assert table_calls.watch_url("t", None) == "/v0/tables/t/watch"
