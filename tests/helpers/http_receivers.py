"""Real HTTP servers that receive events, and misbehave as they are told."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from limits import LIMIT_S

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Keeps what was posted, then does what its server says."""

    server: Receiving

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.keep(self, json.loads(body))
        self.server.answer(self)

    def log_message(self, *_: object) -> None: ...


class Receiving(ThreadingHTTPServer):
    """A server on a free port of an address.

    Attributes:
        answer: what it does after it has read a request.
        bodies, headers, paths: of the requests, in the order in which they came.
        release: set when what holds a request is to let go of it.
    """

    daemon_threads = True

    def __init__(self, answer: Answer, host: str) -> None:
        super().__init__((host, 0), Handler)
        self.answer = answer
        self.bodies: list[Any] = []
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.release = threading.Event()
        self._came = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_port}"

    def keep(self, handler: Handler, body: Any) -> None:
        with self._came:
            self.bodies.append(body)
            self.headers.append(dict(handler.headers))
            self.paths.append(handler.path)
            self._came.notify_all()

    def wait_for(self, requests: int) -> None:
        with self._came:
            assert self._came.wait_for(lambda: len(self.bodies) >= requests, LIMIT_S), self.bodies

    def handle_error(self, *_: object) -> None:
        """Say nothing: whoever asked is gone."""


@contextmanager
def receiving(answer: Answer, host: str = "127.0.0.1") -> Iterator[Receiving]:
    server = Receiving(answer, host)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        server.server_close()
        thread.join(LIMIT_S)


def status(code: int, **headers: str) -> Answer:
    """Return what answers with a status; of the names of headers, ``_`` stands for ``-``."""

    def answer(handler: Handler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def in_turn(*answers: Answer) -> Answer:
    """Return what gives one answer after the other, and the last one from then on."""

    def answer(handler: Handler) -> None:
        answers[min(len(handler.server.bodies), len(answers)) - 1](handler)

    return answer


def holds(handler: Handler) -> None:
    """Keep a request without an answer until it is released."""
    handler.server.release.wait(LIMIT_S)
    status(200)(handler)


def hangs_up(handler: Handler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def talks_rubbish(handler: Handler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")


def trickles(handler: Handler) -> None:
    """Answer with headers that never end, a byte from time to time."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not handler.server.release.wait(0.01):
        handler.wfile.write(b"x")


def closed_port() -> int:
    """Return a port of the loopback at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
