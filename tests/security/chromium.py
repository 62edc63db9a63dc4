"""A real browser without a window, driven over its debugging protocol, and pages to open in it."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from tests.support import requirements
from tests.support.serving import DEADLINE_S, eventually

CALL_DEADLINE_S = 4 * DEADLINE_S  # a script may try many things, one after the other
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, and only their own pages are opened
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-default-browser-check",
    "--remote-debugging-port=0",
    "--host-resolver-rules=MAP *.test 127.0.0.1",
    # The browser's own guards of loopback are not what is tested here.
    "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,"
    "PrivateNetworkAccessSendPreflights,BlockInsecurePrivateNetworkRequests",
)


def program() -> str:
    """The browser of this machine; without one the test is skipped, and in CI it fails."""
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    requirements.lacking("Chromium", requirements.FROM_DEBIAN)


class Chromium:
    """One browser process and one connection to it. A context manager; not for several threads."""

    def __init__(self, home: Path) -> None:
        self._exit = contextlib.ExitStack()
        self._process = subprocess.Popen(
            [program(), *SWITCHES, f"--user-data-dir={home}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            place = home / "DevToolsActivePort"
            lines = eventually(lambda: _lines(place), "Chromium's port")
            url = f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            self._wire = self._exit.enter_context(
                connect(
                    url,
                    max_size=None,
                    compression=None,
                    proxy=None,
                    open_timeout=DEADLINE_S,
                    ping_interval=None,
                )
            )
        except BaseException:
            self._kill()
            raise
        self._ids = itertools.count(1)
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()
        self._kill()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def call(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        """A command of the protocol and its answer; events that come meanwhile are kept."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        self._wire.send(json.dumps(message))
        until = time.monotonic() + CALL_DEADLINE_S
        while True:
            answer = json.loads(self._wire.recv(timeout=max(0.1, until - time.monotonic())))
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(answer["error"])
                return dict(answer["result"])
            self._take(answer)

    def _take(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        session = event.get("sessionId")
        if event.get("method") == "Page.javascriptDialogOpening":
            self._post("Page.handleJavaScriptDialog", session, accept=True)
        if event.get("method") == "Fetch.requestPaused":
            body = "PGgxPmEgcGFnZTwvaDE+"  # <h1>a page</h1>
            params = event["params"]
            self._post(
                "Fetch.fulfillRequest",
                session,
                requestId=params["requestId"],
                responseCode=200,
                responseHeaders=[{"name": "Content-Type", "value": "text/html"}],
                body=body,
            )

    def _post(self, method: str, session: Any, **params: Any) -> None:
        """A command whose answer does not matter."""
        message = {"id": next(self._ids), "method": method, "params": params, "sessionId": session}
        self._wire.send(json.dumps(message))

    def open(self, url: str, *, faked: bool = False) -> Page:
        """A page of its own. A faked one is made up by the browser in place of what is at `url`, so
        that it has that origin."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable", session)
        if faked:
            self.call("Fetch.enable", session, patterns=[{"urlPattern": url}])
        self.call("Page.navigate", session, url=url)
        page = Page(self, session)
        eventually(
            lambda: page.evaluate("location.href + document.readyState") == f"{url}complete",
            f"the page {url}",
        )
        if faked:
            self.call("Fetch.disable", session)
        return page


class Page:
    """One tab."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session

    def evaluate(self, script: str) -> Any:
        """The value of an expression, waited for when it is a promise."""
        answer = self._browser.call(
            "Runtime.evaluate",
            self._session,
            expression=script,
            awaitPromise=True,
            returnByValue=True,
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")


def _lines(place: Path) -> list[str]:
    try:
        lines = place.read_text().splitlines()
    except OSError:
        return []
    return lines if len(lines) == 2 else []


@contextlib.contextmanager
def site() -> Iterator[int]:
    """A web server whose every page is empty; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Empty)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()
    thread.join()


class _Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>a page</title>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: whoever asks for pages is this test."""
