"""A webhook: an address to which each event is posted as JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from timing_logger.errors import ConfigurationError
from timing_logger.live.events import Event, event_line
from timing_logger.live.posting import post

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
