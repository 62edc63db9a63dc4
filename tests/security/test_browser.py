"""S6 and S21: what pages of other sites can do through a visitor's browser. In a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.security.chromium import Chromium, Page, site
from tests.server.support import Api, api_of
from tests.support.serving import Server, eventually

# Everything a page has to talk to a server with. Each attempt tells whether it got through.
ATTACK = """
(async (base, topic, wid) => {
  const json = data => JSON.stringify({records: [{data}]});
  const late = new Promise(done => setTimeout(() => done('late'), 60000));
  const first = attempt => Promise.race([
    attempt.then(found => found === true, () => false), late]);
  const event = (thing, good, bad) => new Promise(done => {
    thing.addEventListener(good, () => done(true));
    thing.addEventListener(bad, () => done(false));
  });
  const element = (name, fields) => Object.assign(document.createElement(name), fields);
  const post = (body, more) => fetch(`${base}/v0/topics/${topic}`, {method: 'POST', body, ...more})
    .then(answer => answer.ok);
  const form = async () => {
    const name = 'frame' + Math.random();
    const frame = element('iframe', {name});
    document.body.append(frame);
    const sender = element('form', {
      action: `${base}/v0/topics/${topic}`, method: 'POST', enctype: 'text/plain', target: name});
    sender.append(element('input', {
      name: '{"records":[{"data":"form"}],"x":"', value: '"}'}));
    document.body.append(sender);
    const loaded = event(frame, 'load', 'error');
    sender.submit();
    await loaded;
    return frame.contentDocument !== null;
  };
  const script = async () => {
    const found = element('script', {src: `${base}/v0/topics`});
    const loaded = event(found, 'load', 'error');
    document.body.append(found);
    return loaded;
  };
  const asked = () => new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open('PUT', `${base}/v0/topics/${topic}-xhr`);
    request.onload = () => done(request.status < 300);
    request.onerror = fail;
    request.send();
  });
  const source = () => {
    const stream = new EventSource(`${base}/v0/watch/${wid}`);
    return event(stream, 'open', 'error').finally(() => stream.close());
  };
  const socket = () => {
    const found = new WebSocket(`${base.replace('http', 'ws')}/v0/ws`);
    return event(found, 'open', 'error').finally(() => found.close());
  };
  const attempts = {
    'simple POST': () => post(json('simple')),
    'POST of a blob': () => post(new Blob([json('blob')])),
    'POST without CORS': () => post(json('no-cors'), {mode: 'no-cors'}),
    'POST of JSON': () => post(json('json'), {headers: {'Content-Type': 'application/json'}}),
    'POST with a key': () => post(json('key'), {
      headers: {'Content-Type': 'application/json', Authorization: 'Bearer guess'}}),
    'GET': () => fetch(`${base}/v0/topics`).then(async a => a.ok && (await a.json()) !== null),
    'GET without CORS': () => fetch(`${base}/v0/topics`, {mode: 'no-cors'})
      .then(async a => (await a.text()) !== ''),
    'DELETE': () => fetch(`${base}/v0/topics/${topic}`, {method: 'DELETE'}).then(a => a.ok),
    'XMLHttpRequest': asked,
    'form': form,
    'script': script,
    'EventSource': source,
    'WebSocket': socket,
  };
  const found = {};
  for (const [name, attempt] of Object.entries(attempts))
    found[name] = await first(new Promise(done => done(attempt())));
  navigator.sendBeacon(`${base}/v0/topics/${topic}`, json('beacon'));
  return found;
})
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a site that is not ours."""
    with site() as port:
        yield port


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on loopback without keys: all that protects it is who may speak to it."""
    server = Server(tmp_path_factory.mktemp("victim")).start()
    yield server
    server.close()


@pytest.fixture
def prey(victim: Server) -> Iterator[tuple[Api, str]]:
    api = api_of(victim)
    api.create("t")
    yield api, api.watch(["t"])["wid"]
    api.drop("t")


def attack(page: Page, api: Api, wid: str, host: str = "127.0.0.1") -> dict[str, object]:
    base = f"http://{host}:{api.address[1]}"
    arguments = ",".join(json.dumps(one) for one in (base, "t", wid))
    return dict(page.evaluate(f"{ATTACK}({arguments})"))


def gone_through(found: dict[str, object]) -> set[str]:
    assert "late" not in found.values(), found
    return {name for name, is_through in found.items() if is_through}


def streams(api: Api) -> int:
    return int(api.get("/v0/metrics", {"Accept": "application/json"}).json["sse_connections"])


ORIGINS = [
    "http://127.0.0.1:{}/",
    "http://localhost:{}/",
    "http://evil.test:{}/",
    "data:text/html,x",
]


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_page_from_elsewhere_gets_nothing_through(
    browser: Chromium, port: int, prey: tuple[Api, str], origin: str
) -> None:
    """S6: another port, another name, another site, no site at all: 0 of 13 ways, and a beacon."""
    api, wid = prey
    page = browser.open(origin.format(port))

    found = attack(page, api, wid)

    assert gone_through(found) == set()
    assert api.state("t")["head_seq"] == 0
    assert api.get("/v0/topics/t-xhr").status == 404
    eventually(lambda: streams(api) == 0, "no stream is open")


def test_a_page_that_rebinds_its_name_gets_nothing_through(
    browser: Chromium, prey: tuple[Api, str]
) -> None:
    """S5 and S6: the browser takes evil.test for one site; the server does not answer to it."""
    api, wid = prey
    page = browser.open(f"http://evil.test:{api.address[1]}/page", faked=True)

    found = attack(page, api, wid, host="evil.test")

    assert gone_through(found) - {"form", "GET without CORS"} == set(), found
    assert api.state("t")["head_seq"] == 0
    text = page.evaluate("fetch('/v0/topics', {mode: 'no-cors'}).then(answer => answer.text())")
    assert "misdirected_request" in text


def test_a_page_of_the_same_origin_gets_through(browser: Chromium, prey: tuple[Api, str]) -> None:
    """S6: the attack works where it may, so the tests above can fail."""
    api, wid = prey
    page = browser.open(f"http://127.0.0.1:{api.address[1]}/page", faked=True)

    found = attack(page, api, wid)

    expected = {"POST of JSON", "POST with a key", "GET", "EventSource", "WebSocket"}
    assert expected <= gone_through(found), found
    assert api.get("/v0/topics/t").status == 404  # it was deleted


def test_a_page_of_an_allowed_origin_gets_through(
    browser: Chromium, port: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """S6: the same page as above, once the operator allows it; others stay outside."""
    env = {"PENSTOCK_ALLOWED_ORIGINS": f"http://127.0.0.1:{port}"}
    server = Server(tmp_path_factory.mktemp("allowed"), env).start()
    try:
        api = api_of(server)
        api.create("t")
        wid = api.watch(["t"])["wid"]

        found = attack(browser.open(f"http://127.0.0.1:{port}/"), api, wid)

        expected = {"POST of JSON", "POST with a key", "GET", "DELETE", "XMLHttpRequest"}
        expected |= {"EventSource", "WebSocket"}
        assert gone_through(found) - {"script"} == expected, found
        assert api.get("/v0/topics/t-xhr").status == 200
        api.create("t")
        other = attack(browser.open(f"http://localhost:{port}/"), api, wid)
        assert gone_through(other) == set()
    finally:
        server.close()


MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def test_nothing_the_server_says_is_run_by_a_browser(browser: Chromium, victim: Server) -> None:
    """S21: markup in payloads, tags and paths, opened as a page: no dialog and no element."""
    api = api_of(victim)
    api.create("markup")
    api.write("markup", records=[{"data": MARKUP, "tag": MARKUP[:200], "meta": {MARKUP: MARKUP}}])
    base = f"http://127.0.0.1:{api.address[1]}"
    escaped = quote(MARKUP, safe="")
    browser.events.clear()

    for path in (
        "/v0/topics",
        "/v0/topics/markup",
        f"/v0/topics/{escaped}",
        f"/{escaped}",
        f"/v0/topics?prefix={escaped}&cursor={escaped}",
        "/v0/metrics",
        "/v0/openapi.json",
        "/v0/health",
    ):
        page = browser.open(f"{base}{path}")
        kind = page.evaluate("document.contentType")
        assert kind in ("application/json", "text/plain"), path
        assert page.evaluate("document.querySelectorAll('img, script').length") == 0, path

    fired = [event for event in browser.events if "Dialog" in event.get("method", "")]
    assert fired == []


def test_a_dialog_would_have_been_seen(browser: Chromium, port: int) -> None:
    """S21: the listener of the test above hears."""
    page = browser.open(f"http://127.0.0.1:{port}/")
    browser.events.clear()

    page.evaluate(f"document.body.innerHTML = {json.dumps(MARKUP)}")

    def is_heard() -> bool:
        page.evaluate("document.title")  # events come with the answers
        return any("DialogOpening" in event.get("method", "") for event in browser.events)

    eventually(is_heard, "the dialog")
