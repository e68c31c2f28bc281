"""The page of a run is read by whoever knows its whole address, and by nobody else; none holds others up."""

from __future__ import annotations

import base64
import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partialmethod
from socketserver import BaseServer, ThreadingTCPServer
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from limits import LIMIT_S

from timing_logger.errors import ConfigurationError
from timing_logger.live.page_server import (
    LOOPBACK,
    MOST_CONNECTIONS,
    PageServer,
    _names,
    _Server,
    is_loopback,
)

CONTENT = {"": b"<!doctype html>", "now": b"{}"}
LARGE = bytes(16_000_000)  # more than a connection's buffers hold


@pytest.fixture(scope="module", autouse=True)
def ends_at_once() -> Iterator[None]:
    """A server looks often whether it is to end: by default, each half of a second."""
    with pytest.MonkeyPatch.context() as patch:
        often = partialmethod(BaseServer.serve_forever, poll_interval=0.01)
        patch.setattr(BaseServer, "serve_forever", often)
        yield


@pytest.fixture(scope="module")
def server(ends_at_once: None) -> Iterator[PageServer]:
    server = PageServer(0, LOOPBACK, CONTENT.get)
    yield server
    server.close()


class Got:
    """An answer: its status, its headers and its content."""

    def __init__(self, server: PageServer, path: str, method: str = "GET", host: str = "") -> None:
        place = urlsplit(server.url)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=LIMIT_S)
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        self.status, self.headers, self.content = answer.status, answer.headers, answer.read()
        connection.close()


def path_of(server: PageServer) -> str:
    return urlsplit(server.url).path


def connected(server: PageServer) -> socket.socket:
    place = urlsplit(server.url)
    return socket.create_connection((place.hostname, place.port), timeout=LIMIT_S)


def test_who_knows_the_address_gets_the_page_and_what_its_script_asks_for(server: PageServer) -> None:
    got = [Got(server, path_of(server) + name) for name in CONTENT]
    assert [(one.status, one.content) for one in got] == [(200, content) for content in CONTENT.values()]


@pytest.mark.parametrize(
    "path",
    ["/", "/now", "/AAAAAAAAAAAAAAAAAAAAAA/", "/%s", "/../%s/", "//%s/now", "/?token=%s", "/%sx/now", "*"],
)
def test_who_does_not_know_the_token_is_refused(server: PageServer, path: str) -> None:
    token = path_of(server).strip("/")
    got = Got(server, path % token[:-1] if "%" in path else path)
    assert got.status == 403
    assert token.encode() not in got.content


def test_each_server_has_a_token_of_its_own(server: PageServer) -> None:
    other = PageServer(0, LOOPBACK, CONTENT.get)
    other.close()
    assert path_of(other) != path_of(server)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "127.0.0.1.evil"]
)
def test_a_name_that_somebody_else_may_point_here_is_refused(server: PageServer, host: str) -> None:
    with connected(server) as client:
        client.sendall(f"GET {path_of(server)} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert client.makefile().readline().split()[1] == "403"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9000", "127.0.0.1:1", "[::1]:80", "[::1]", "10.1.2.3"]
)
def test_through_a_tunnel_it_may_have_another_address(server: PageServer, host: str) -> None:
    assert Got(server, path_of(server), host=host).status == 200


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "page_server.py", "now/", "now?x"]
)
def test_there_is_nothing_else(server: PageServer, name: str) -> None:
    assert Got(server, path_of(server) + name).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_it_is_only_read(server: PageServer, method: str) -> None:
    assert Got(server, path_of(server), method).status == 501


def test_a_head_has_no_content(server: PageServer) -> None:
    got = Got(server, path_of(server), "HEAD")
    assert (got.status, got.content, got.headers["Content-Length"]) == (200, b"", str(len(CONTENT[""])))


def test_no_site_may_frame_it_keep_it_or_learn_its_address(server: PageServer) -> None:
    headers = Got(server, path_of(server)).headers
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    assert "Python" not in headers["Server"]


@pytest.mark.slow("waits for time limits of ten seconds; what usual clients get is quick")
def test_clients_that_say_nothing_or_read_nothing_hold_nobody_up() -> None:
    server = PageServer(0, LOOPBACK, {"": LARGE, "now": b"{}"}.get)
    with ExitStack() as open_ones:
        clients = [open_ones.enter_context(connected(server)) for _ in range(2 * MOST_CONNECTIONS)]
        for client in clients[::2]:
            client.sendall(f"GET {path_of(server)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert Got(server, path_of(server) + "now").content == b"{}"
        assert clients[1].recv(1) == b""  # the oldest give way
    server.close()


def test_a_port_in_use_is_an_error_that_says_the_way_out(server: PageServer) -> None:
    port = urlsplit(server.url).port
    assert port is not None
    with pytest.raises(
        ConfigurationError, match=f"port {port} of 127.0.0.1: Address already in use. Give --serve"
    ):
        PageServer(port, LOOPBACK, CONTENT.get)


def test_an_address_that_is_not_of_this_machine_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="--address is one of this machine"):
        PageServer(0, "192.0.2.1", CONTENT.get)


@pytest.mark.parametrize(
    ("address", "only_here"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("h", False)],
)
def test_what_only_this_machine_reaches_is_known(address: str, only_here: bool) -> None:
    assert is_loopback(address) is only_here


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    """A server that takes connections, and answers none of them."""
    monkeypatch.setattr(ThreadingTCPServer, "process_request", lambda *_: None)
    with _Server(0, LOOPBACK, CONTENT.get) as listening:
        yield listening


def is_cut(theirs: socket.socket) -> bool:
    theirs.setblocking(False)
    try:
        return theirs.recv(1) == b""
    except BlockingIOError:
        return False


def test_one_connection_more_than_the_most_cuts_the_oldest_that_is_open(listening: _Server) -> None:
    with ExitStack() as open_ones:
        pairs = [socket.socketpair() for _ in range(MOST_CONNECTIONS + 2)]
        for ours, theirs in pairs:
            open_ones.enter_context(ours)
            open_ones.enter_context(theirs)
        for ours, _ in pairs[:MOST_CONNECTIONS]:
            listening.process_request(ours, None)
        listening.shutdown_request(pairs[0][0])  # it has its answer, and leaves room for another
        listening.process_request(pairs[-2][0], None)
        assert not any(is_cut(theirs) for _, theirs in pairs[1:])
        listening.process_request(pairs[-1][0], None)
        assert [is_cut(theirs) for _, theirs in pairs[1:4]] == [True, False, False]


@pytest.mark.parametrize(
    ("address", "host"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("0.0.0.0", "node7"), ("::", "node7"), ("h", "h")],
)
def test_the_address_is_that_of_this_host_where_all_its_interfaces_are_meant(
    address: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    server = PageServer.__new__(PageServer)
    server._server = SimpleNamespace(host=address, server_address=(address, 80), token="t")  # type: ignore[assignment]
    assert server.url == f"http://{host}:80/t/"


def test_a_server_that_others_reach_is_called_by_the_names_of_its_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Node7")
    monkeypatch.setattr(socket, "getfqdn", lambda: "node7.example")
    assert _names("127.0.0.1") == {"localhost", "127.0.0.1"}
    assert _names("10.0.0.7") == {"localhost", "10.0.0.7", "node7", "node7.example"}


def test_a_token_cannot_be_guessed(listening: _Server) -> None:
    assert len(base64.urlsafe_b64decode(listening.token + "==")) == 16


def test_a_server_that_is_closed_has_left_its_port() -> None:
    server = PageServer(0, LOOPBACK, CONTENT.get)
    place = (LOOPBACK, urlsplit(server.url).port)
    server.close()
    with socket.create_server(place) as another:
        assert another.getsockname() == place


def test_a_server_that_is_closed_has_no_thread_left(server: PageServer) -> None:
    def threads() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if each.name == "page-server"}

    before = threads()
    another = PageServer(0, LOOPBACK, CONTENT.get)
    (thread,) = threads() - before
    another.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
