"""Which names a request may be sent to, and from which pages: S5 and S6."""

from __future__ import annotations

import pytest
from websockets.exceptions import InvalidStatus

from tests.server.conftest import Start
from tests.server.support import JSON, Api, api_of, refused
from tests.server.wire import Connection, Reply, head
from tests.support.serving import Server

ONE = b'{"records":[{"data":1}]}'


def ask(server: Server, *headers: tuple[str, str], method: str = "GET", path: str = "") -> Reply:
    with Connection(server.address) as wire:
        wire.send(head(method, path or "/v0/health", headers))
        return wire.read_reply(method)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
@pytest.mark.parametrize("port", ["", "own", ":80"])
def test_loopback_names_are_answered(shared: Server, host: str, port: str) -> None:
    port = f":{shared.address[1]}" if port == "own" else port

    assert ask(shared, ("Host", host + port)).status == 200


def test_the_name_of_a_host_has_no_case(shared: Server) -> None:
    assert ask(shared, ("Host", "LocalHost")).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "localhost.evil.test",
        "127.0.0.1.evil",
        "evil.test:4000",
        "127.0.0.2",
        "xlocalhost",
        "localhost@evil.test",
        "0.0.0.0",
    ],
)
def test_other_names_are_misdirected(shared: Server, host: str) -> None:
    refused(ask(shared, ("Host", host)), 421, "misdirected_request")


@pytest.mark.parametrize("host", ["", "evil/../", "local host", "localhost:port", "[::1", "a,b"])
def test_a_host_that_is_no_name_is_refused(shared: Server, host: str) -> None:
    assert ask(shared, ("Host", host)).status in (400, 421)


def test_a_missing_or_second_host_is_a_bad_request(shared: Server) -> None:
    refused(ask(shared), 400, "bad_request")
    refused(ask(shared, ("Host", "localhost"), ("Host", "evil.test")), 400, "bad_request")


@pytest.mark.parametrize(
    "path", ["/v0/topics", "/v0/openapi.json", "/v0/watch/x", "/v0/ws", "/nothing", "/v0/metrics"]
)
def test_the_host_is_checked_on_every_path(shared: Server, path: str) -> None:
    refused(ask(shared, ("Host", "evil.test"), path=path), 421, "misdirected_request")


def test_more_names_can_be_allowed(start: Start) -> None:
    server = start(PENSTOCK_ALLOWED_HOSTS="log.example, other.example")

    assert ask(server, ("Host", "log.example")).status == 200
    assert ask(server, ("Host", "other.example:8080")).status == 200
    assert ask(server, ("Host", "localhost")).status == 200
    refused(ask(server, ("Host", "evil.test")), 421, "misdirected_request")


def test_any_name_can_be_allowed(start: Start) -> None:
    assert ask(start(PENSTOCK_ALLOWED_HOSTS="*"), ("Host", "any.example")).status == 200


# Pages of a browser.


@pytest.mark.parametrize(
    "origin", ["http://evil.test", "null", "http://localhost:1", "https://localhost", "file://"]
)
def test_a_page_from_elsewhere_is_forbidden(api: Api, topic: str, origin: str) -> None:
    headers = {"Origin": origin}
    api.create(topic)

    refused(api.post(f"/v0/topics/{topic}", ONE, JSON | headers), 403, "forbidden")
    refused(api.get(f"/v0/topics/{topic}", headers), 403, "forbidden")
    refused(api.get("/v0/watch/wid_AAAAAAAAAAAAAAAAAAAAAA", headers), 403, "forbidden")
    assert api.state(topic)["head_seq"] == 0


def test_a_page_from_elsewhere_gets_no_socket(api: Api) -> None:
    with pytest.raises(InvalidStatus) as caught:
        api.socket(origin="http://evil.test")

    assert caught.value.response.status_code == 403


def test_a_page_of_our_own_is_served(api: Api, topic: str) -> None:
    host, port = api.address
    own = {"Origin": f"http://{host}:{port}"}

    assert api.post(f"/v0/topics/{topic}", ONE, JSON | own).status == 201
    with api.socket(origin=own["Origin"]) as socket:
        assert socket.ask("ping")["op"] == "pong"


def test_more_origins_can_be_allowed(start: Start, topic: str) -> None:
    api = api_of(start(PENSTOCK_ALLOWED_ORIGINS="https://app.example,https://b.example"))

    for origin in ("https://app.example", "https://b.example"):
        reply = api.post(f"/v0/topics/{topic}", ONE, JSON | {"Origin": origin})
        assert reply.status in (200, 201)
        assert reply.headers.get("access-control-allow-origin") != "*"
    refused(api.get("/v0/topics", {"Origin": "https://c.example"}), 403, "forbidden")


def test_what_a_browser_calls_cross_site_is_forbidden(api: Api, topic: str) -> None:
    headers = JSON | {"Sec-Fetch-Site": "cross-site"}

    refused(api.post(f"/v0/topics/{topic}", ONE, headers), 403, "forbidden")


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_what_a_browser_calls_its_own_is_served(api: Api, topic: str, site: str) -> None:
    headers = JSON | {"Sec-Fetch-Site": site}

    assert api.post(f"/v0/topics/{topic}", ONE, headers).status == 201


def test_no_answer_lets_every_page_read_it(api: Api) -> None:
    for target in ("/v0/health", "/v0/topics", "/v0/openapi.json", "/v0/nothing"):
        assert "access-control-allow-origin" not in api.get(target).headers
