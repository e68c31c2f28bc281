"""Serve a page to whoever knows its address, which holds a token: by default to browsers of this machine.

A request makes nothing: it gets what is ready. Nothing of the file system is served.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from timing_logger.errors import ConfigurationError

LOOPBACK = "127.0.0.1"

MOST_CONNECTIONS = 32
"""Beyond so many the oldest gives way: one that reads slowly, or says nothing, holds up no other."""

_ALL_INTERFACES = ("0.0.0.0", "::")
_PATIENCE_S = 30.0  # for a request, and for its answer
_TOKEN_BYTES = 16
_TYPES = {"": "text/html; charset=utf-8", "now": "application/json"}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # what else holds, the page states itself
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address is a secret
    "X-Content-Type-Options": "nosniff",
}


def is_loopback(address: str) -> bool:
    """Tell whether only this machine reaches what listens at an IP address, or at a name."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


class PageServer:
    """Answers GET and HEAD in threads of its own.

    Args:
        port: 0 for any that is free.
        address: of the interface: an IP address or a name of this machine.
        served: returns the content that has a name, "" for the page itself; None for a name that nothing has.
            It is called from several threads.

    Raises:
        ConfigurationError: the port is in use, or the address is not of this machine.
    """

    def __init__(self, port: int, address: str, served: Callable[[str], bytes | None]) -> None:
        try:
            self._server = _Server(port, address, served)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on port {port} of {address}: {error.strerror or error}. Give --serve another "
                "PORT, or none for one that is free; --address is one of this machine."
            ) from None
        threading.Thread(target=self._server.serve_forever, name="page-server", daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        server = self._server
        host = socket.gethostname() if server.host in _ALL_INTERFACES else server.host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{server.server_address[1]}/{server.token}/"

    def close(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, address: str, served: Callable[[str], bytes | None]) -> None:
        self.host, self.names, self.served = address, _names(address), served
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._open: dict[int, socket.socket] = {}  # the oldest first
        self._lock = threading.Lock()
        self.address_family, _, _, _, at = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        super().__init__(at[:2], _Handler)  # type: ignore[arg-type]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[id(request)] = request
            oldest = next(iter(self._open.values())) if len(self._open) > MOST_CONNECTIONS else None
        if oldest is not None:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser goes away when it likes."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE_S
    server_version, sys_version = "timing-logger", ""

    def do_GET(self) -> None:
        token, slash, name = self.path.removeprefix("/").partition("/")
        if not _is_ours(self.headers.get("Host", ""), self.server.names):
            self._refuse(HTTPStatus.FORBIDDEN, "This name is none of the host that the page is of.")
        elif not secrets.compare_digest((token + slash).encode(), f"{self.server.token}/".encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "The page is at the whole address that was printed.")
        elif name not in _TYPES or (content := self.server.served(name)) is None:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
        else:
            self._answer(HTTPStatus.OK, _TYPES[name], content)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Print nothing: the terminal shows what the user asked for."""

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._answer(status, "text/plain; charset=utf-8", f"{why}\n".encode())

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for header, value in {**_HEADERS, "Content-Type": kind, "Content-Length": len(content)}.items():
            self.send_header(header, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _names(address: str) -> frozenset[str]:
    """Return the names by which a browser may call a server that listens there."""
    names = {"localhost", address}
    if not is_loopback(address):
        names |= {socket.gethostname(), socket.getfqdn()}
    return frozenset(name.lower() for name in names)


def _is_ours(host: str, names: frozenset[str]) -> bool:
    """Tell whether a request names this server, and no name that somebody else may point to it.

    Another site's name that leads here (DNS rebinding) would let its scripts read the page; an IP address is
    no name. The port is not compared: a tunnel may have another at its other end.
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name.strip("[]")))
    return name.lower() in names
