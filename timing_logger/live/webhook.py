"""A webhook: an address to which each event is posted as JSON."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import TracebackType
from typing import Any
from urllib import error, request
from urllib.parse import urlsplit

from timing_logger.errors import ConfigurationError
from timing_logger.live.delivery import NotDelivered
from timing_logger.live.events import Event, event_line

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
    asked = answer.headers.get("Retry-After", "")
    pause_s = float(asked) if asked.isascii() and asked.isdecimal() else 0.0
    return NotDelivered(f"it answers {answer.code}", may_later=may_later, pause_s=pause_s)


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


_FROM_ENVIRONMENT = "env:"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PRINTABLE = re.compile(r"[\x20-\x7e]+")
_OURS = {"Content-Type": "application/json", "User-Agent": "timing-logger"}
_MOST_RETRIES = 100
_LONGEST_S = 600.0


@dataclass(frozen=True)
class Webhook:
    """An address to which each event is posted; a :class:`timing_logger.live.delivery.Receiver`.

    Whoever knows the address can often use it, so it is a secret, and so are the values of headers: they are
    in no message and in no ``repr``. As ``env:NAME`` they are taken from the environment, once, and no
    command line or file need hold them.

    Args:
        url: the address, ``https://`` or ``http://``; or ``env:NAME``, the variable that holds it.
        timeout_s: how long one try may take, in s.
        headers: further headers of each request. A value may be ``env:NAME``.
        retries: how often an event is posted again that did not get there. Before that there are pauses, of
            1 s at first, then twice as long each time, up to 60 s.

    Raises:
        ConfigurationError: an option is out of range, or a variable is not set.
    """

    url: str = field(repr=False)
    timeout_s: float = 5.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    retries: int = 5
    _post_to: str = field(init=False, repr=False, compare=False)
    _post_with: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.headers, Mapping):
            raise ConfigurationError("headers is no mapping: give the values of headers by their names.")
        for name, value in {
            "headers": dict(self.headers),
            "_post_to": _checked_url(_stated("url", self.url)),
            "_post_with": {name: _checked_header(name, value) for name, value in self.headers.items()},
        }.items():
            object.__setattr__(self, name, value)
        if type(self.timeout_s) not in (int, float) or not 0 < self.timeout_s <= _LONGEST_S:
            raise ConfigurationError(
                f"timeout_s={self.timeout_s!r} is no time: give seconds above 0, up to {_LONGEST_S:g}."
            )
        if type(self.retries) is not int or not 0 <= self.retries <= _MOST_RETRIES:
            raise ConfigurationError(
                f"retries={self.retries!r} is out of range: give an integer from 0 to {_MOST_RETRIES}."
            )

    @property
    def name(self) -> str:
        """Where it is, without what may be secret."""
        at = urlsplit(self._post_to)
        return f"the webhook at {at.scheme}://{at.netloc}"

    def receive(self, event: Event) -> None:
        """Post an event.

        Raises:
            NotDelivered: it did not get there.
        """
        body = event_line(event).encode()
        post(self._post_to, body, {**_OURS, **self._post_with}, self.timeout_s)

    def to_json(self) -> dict[str, Any]:
        """Return the options as plain values. The URL and the headers are in it as they were given."""
        return {name: getattr(self, name) for name in _names()}

    @classmethod
    def from_json(cls, content: object) -> Webhook:
        """Return the webhook of which :meth:`to_json` returned this.

        Raises:
            ConfigurationError: it is something else.
        """
        if not isinstance(content, dict) or not {"url"} <= set(content) <= set(_names()):
            raise ConfigurationError(
                f"webhook: give an object with url, and nothing but {', '.join(_names())}."
            )
        return cls(**content)


def _names() -> list[str]:
    return [one.name for one in fields(Webhook) if one.init]


def _stated(argument: str, given: object) -> str:
    """Return a text, or what the variable holds that it names; what was given is in no message."""
    if not isinstance(given, str):
        raise ConfigurationError(f"{argument} is no text: give a text, or env:NAME.")
    if not given.startswith(_FROM_ENVIRONMENT):
        return given
    name = given.removeprefix(_FROM_ENVIRONMENT)
    value = os.environ.get(name)
    if not value:
        raise ConfigurationError(f"{argument}: the environment variable {name!r} is not set. Export it.")
    return value


def _checked_url(url: str) -> str:
    hidden = "It is not shown, as it may be a secret."
    if not _PRINTABLE.fullmatch(url) or " " in url:
        raise ConfigurationError(f"url is empty, or has characters that are to be written as %XX. {hidden}")
    try:
        parts = urlsplit(url)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_place = False
    if not has_place or parts.scheme not in ("http", "https"):
        raise ConfigurationError(f"url is no address: give https://HOST/PATH, or env:NAME. {hidden}")
    if "@" in parts.netloc:
        raise ConfigurationError(f"url has a user or password: give a header Authorization instead. {hidden}")
    return url


def _checked_header(name: object, value: object) -> str:
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        raise ConfigurationError(f"headers: {name!r} is no name of a header: give one such as Authorization.")
    stated = _stated(f"headers[{name!r}]", value)
    if not _PRINTABLE.fullmatch(stated):
        raise ConfigurationError(f"headers[{name!r}] is empty, or not of printable ASCII: leave it away.")
    return stated
