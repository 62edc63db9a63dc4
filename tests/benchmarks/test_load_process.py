"""A job done in a process of its own."""

from __future__ import annotations

import http.server
import threading

import pytest

from benchmarks.load_job import Drive
from benchmarks.load_process import run_job
from benchmarks.load_requests import http as request
from benchmarks.server_process import free_port


class _Always(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        del format, args


def test_the_generator_counts_what_a_server_answers() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Always) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        job = Drive([request("GET", "/")], 2, 0.2, warm_up=0.0, port=server.server_address[1])
        try:
            load = run_job(job)
        finally:
            server.shutdown()
            thread.join()

    assert not load.failure
    assert load.answers > 0
    assert load.seconds == pytest.approx(0.2, abs=10)


def test_a_failure_comes_back_as_a_word() -> None:
    assert "refused" in run_job(Drive([b"x"], 1, 0.1, port=free_port())).failure.lower()
