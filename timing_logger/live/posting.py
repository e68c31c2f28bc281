"""One POST over HTTP or HTTPS, with a limit to its time as a whole. It follows nobody to another place."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any
from urllib import error, request

from timing_logger.live.delivery import NotDelivered

_BUSY = frozenset({408, 425, 429})
"""The answers below 500 of those who may take it later."""


def post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> None:
    """Send a body, and wait for the answer, of which only the status is read.

    Proxies are those of the environment (``https_proxy``, ``no_proxy``). Certificates are checked against
    those of the system, or of ``SSL_CERT_FILE``.

    Args:
        url: where it is sent.
        body: what is sent.
        headers: the headers of the request.
        timeout_s: how long all of it may take, in s. Only the resolution of the name has its own limits.

    Raises:
        NotDelivered: the answer is no success, or there is none. The text holds no part of the URL.
    """
    asked = request.Request(url, data=body, headers=dict(headers), method="POST")
    with _Limit(timeout_s) as limit:
        try:
            with _opener(url, limit).open(asked, timeout=timeout_s):
                if limit.is_over:  # http.client takes the end of a connection for that of the headers
                    raise TimeoutError
        except error.HTTPError as answer:
            answer.close()
            raise _refusal(answer) from None
        except (OSError, http.client.HTTPException, ValueError) as trouble:
            raise _no_answer(trouble, limit, timeout_s) from None


class _Limit:
    """Ends a request when its time is over, however many bytes still trickle in."""

    def __init__(self, limit_s: float) -> None:
        self.is_over = False
        self._connections: list[socket.socket] = []
        self._timer = threading.Timer(limit_s, self._end)
        self._timer.daemon = True

    def applies_to(self, connection: socket.socket) -> None:
        self._connections.append(connection.dup())  # TLS takes the socket itself over
        if self.is_over:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        for connection in self._connections:
            with contextlib.suppress(OSError):  # it is closed by now
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> _Limit:
        self._timer.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._timer.cancel()
        for connection in self._connections:
            connection.close()


class _Limited(http.client.HTTPConnection):
    limit: _Limit

    def connect(self) -> None:
        super().connect()
        self.limit.applies_to(self.sock)


class _LimitedTls(http.client.HTTPSConnection, _Limited):
    """In the order of the classes it speaks TLS over what is limited, and is connected, before."""


def _made(kind: type[_Limited], limit: _Limit, *arguments: Any, **options: Any) -> _Limited:
    connection = kind(*arguments, **options)
    connection.limit = limit
    return connection


class _Http(request.HTTPHandler):
    def __init__(self, limit: _Limit) -> None:
        super().__init__()
        self._limit = limit

    def http_open(self, asked: request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_made, _Limited, self._limit), asked)


class _Https(request.HTTPSHandler):
    def __init__(self, limit: _Limit) -> None:
        self._certified = ssl.create_default_context()
        super().__init__(context=self._certified)
        self._limit = limit

    def https_open(self, asked: request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_made, _LimitedTls, self._limit), asked, context=self._certified)


class _NoRedirects(request.HTTPRedirectHandler):
    """What is sent, and the secrets in its headers, are for the place that was named, and for no other."""

    def redirect_request(self, *_: object) -> None:
        return None


def _opener(url: str, limit: _Limit) -> request.OpenerDirector:
    speaks = _Https(limit) if url.startswith("https:") else _Http(limit)
    return request.build_opener(speaks, _NoRedirects())


def _refusal(answer: error.HTTPError) -> NotDelivered:
    if 300 <= answer.code < 400:
        return NotDelivered(
            f"it answers {answer.code}, and redirects are not followed: name the address that it leads to",
            may_later=False,
        )
    may_later = answer.code >= 500 or answer.code in _BUSY
    return NotDelivered(f"it answers {answer.code}", may_later=may_later, pause_s=_asked_pause_s(answer))


def _asked_pause_s(answer: error.HTTPError) -> float:
    seconds = answer.headers.get("Retry-After", "")
    return float(seconds) if seconds.isascii() and seconds.isdecimal() else 0.0


def _no_answer(trouble: Exception, limit: _Limit, timeout_s: float) -> NotDelivered:
    """Say why there is no answer; in our words, since those of libraries may hold the URL."""
    cause = trouble.reason if isinstance(trouble, error.URLError) else trouble
    if isinstance(cause, ssl.SSLCertVerificationError):
        return NotDelivered(f"its certificate is not accepted: {cause.verify_message}", may_later=False)
    if limit.is_over or isinstance(cause, TimeoutError):
        return NotDelivered(f"it does not answer within {timeout_s:g} s", may_later=True)
    if isinstance(cause, socket.gaierror):
        return NotDelivered("its name cannot be resolved", may_later=True)
    if isinstance(cause, ConnectionError):
        return NotDelivered("there is no connection, or it was cut", may_later=True)
    if isinstance(cause, http.client.HTTPException):
        return NotDelivered("its answer is not one of HTTP", may_later=True)
    said = getattr(cause, "strerror", None) or type(cause).__name__
    return NotDelivered(f"it cannot be reached: {said}", may_later=True)
