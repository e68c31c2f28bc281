"""The checks of an exporter's options, which may come from a program or from JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from timing_logger.errors import ConfigurationError

TAKEN_LABELS = frozenset({
    "stat", "rank", "state", "verdict", "operation", "owner", "cause", "window", "change",
})  # fmt: skip
"""The labels of the figures themselves, which those of a job cannot have."""

_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_MOST_S = 3600.0


def check_text(name: str, value: object, way_out: str) -> None:
    """Refuse what is no text, or an empty one."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name} must be a text that is not empty, and is {value!r}: {way_out}.")


def check_may_be_empty(**values: object) -> None:
    """Refuse what is no text."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise ConfigurationError(f"{name} must be a text, which may be empty, and is {value!r}.")


def check_port(name: str, value: object) -> None:
    """Refuse what is no port that a scraper could be told of."""
    if type(value) is not int or not 1 <= value <= 65535:
        raise ConfigurationError(f"{name} must be an integer from 1 to 65535, and is {value!r}.")


def check_seconds(name: str, value: object) -> None:
    """Refuse what is no time in seconds that anybody would wait."""
    if type(value) not in (int, float) or not 0 < value <= _MOST_S:  # type: ignore[operator]
        raise ConfigurationError(f"{name} must be seconds > 0, at most {_MOST_S:.0f}, and is {value!r}.")


def check_url(name: str, value: object, path: str) -> None:
    """Refuse what is no URL with a path, such as ``path``."""
    check_text(name, value, f"name a URL, as 'http://localhost:4318{path}'")
    parts = urlsplit(str(value))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigurationError(f"{name} must begin with http:// or https:// and a host, and is {value!r}.")
    if parts.path in ("", "/"):
        raise ConfigurationError(f"{name} must be the whole URL, and is {value!r}: append {path}.")


def check_labels(labels: object) -> None:
    """Refuse labels of a job that Prometheus would not take, or that figures have themselves."""
    if not isinstance(labels, Mapping):
        raise ConfigurationError(f"labels must be a mapping of names to texts, and is {labels!r}.")
    for name, value in labels.items():
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            raise ConfigurationError(f"labels has the name {name!r}: use letters, digits and underscores.")
        if name in TAKEN_LABELS:
            raise ConfigurationError(f"labels has the name {name!r}, which figures have: choose another.")
        if not isinstance(value, str):
            raise ConfigurationError(f"labels[{name!r}] must be a text, and is {value!r}.")
