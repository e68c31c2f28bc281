"""Options of exporters are refused with their name and what they may be, whatever JSON has in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from timing_logger.errors import ConfigurationError
from timing_logger.live import destinations as _checks


def check_url(name: str, value: object) -> None:
    _checks.check_url(name, value, "/v1/metrics")


def check_labels(_: str, value: object) -> None:
    _checks.check_labels(value)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (_checks.check_port, 1),
        (_checks.check_port, 65535),
        (_checks.check_seconds, 1e-3),
        (_checks.check_seconds, 3600),
        (check_url, "http://localhost:4318/v1/metrics"),
        (check_url, "https://host/x"),
        (check_labels, {"job": "", "_a1": "b"}),
        (lambda name, value: _checks.check_may_be_empty(**{name: value}), ""),
    ],
)
def test_what_may_be_is_accepted(check: Callable[[str, object], None], value: object) -> None:
    check("option", value)


@pytest.mark.parametrize(
    ("check", "value", "said"),
    [
        (_checks.check_port, 0, "option must be an integer from 1 to 65535, and is 0"),
        (_checks.check_port, 65536, "from 1 to 65535"),
        (_checks.check_port, True, "and is True"),
        (_checks.check_port, 80.0, "and is 80.0"),
        (_checks.check_seconds, 0, "option must be seconds > 0, at most 3600, and is 0"),
        (_checks.check_seconds, 3600.5, "at most 3600"),
        (_checks.check_seconds, True, "and is True"),
        (_checks.check_seconds, "1", "and is '1'"),
        (check_url, "", "option must be a text that is not empty, and is '': name a URL"),
        (check_url, 7, "must be a text that is not empty, and is 7"),
        (check_url, "ftp://host/x", "option must begin with http:// or https:// and a host"),
        (check_url, "http:///x", "and a host"),
        (check_url, "http://host", "option must be the whole URL, and is 'http://host': append /v1/metrics"),
        (check_url, "http://host/", "append /v1/metrics"),
        (check_labels, [], r"labels must be a mapping of names to texts, and is \[\]"),
        (check_labels, {"a-b": "x"}, "labels has the name 'a-b': use letters"),
        (check_labels, {"__a": "x"}, "labels has the name '__a': use letters"),
        (check_labels, {7: "x"}, "labels has the name 7: use letters"),
        (check_labels, {"rank": "x"}, "labels has the name 'rank', which figures have"),
        (check_labels, {"job": 7}, r"labels\['job'\] must be a text, and is 7"),
        (
            lambda name, value: _checks.check_may_be_empty(**{name: value}), None,
            "option must be a text, which may be empty, and is None",
        ),
    ],
)  # fmt: skip
def test_what_may_not_be_is_refused_with_the_way_out(
    check: Callable[[str, object], None], value: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        check("option", value)
