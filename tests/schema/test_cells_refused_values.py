"""A value that a column cannot hold is told of once, without calling anything of it."""

from __future__ import annotations

import logging

import pytest

from timing_logger.schema import cells as refused_values
from timing_logger.schema.cells import TAKES, tell


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged, of a process that has told of no column yet."""
    monkeypatch.setattr(refused_values, "_told", set())
    caplog.set_level(logging.WARNING, "timing_logger")
    messages: list[str] = caplog.messages
    return messages


def first(caplog: pytest.LogCaptureFixture) -> str:
    return caplog.messages[0].partition(". The cell")[0]


class Odd:
    """Whose text must not be asked for."""

    def __repr__(self) -> str:
        raise AssertionError


@pytest.mark.usefixtures("said")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "True"), (1.5, "1.5"), ("a", "'a'"), ("x" * 41, repr("x" * 40)), (2**64, str(2**64)),
        (2**127 - 1, str(2**127 - 1)), (2**127, "of type int"), (-(2**127), "of type int"),
        (Odd(), "of type Odd"), ([1], "of type list"), (None, "of type NoneType"),
    ],
)  # fmt: skip
def test_plain_values_are_shown_and_of_others_the_type(
    caplog: pytest.LogCaptureFixture, value: object, shown: str
) -> None:
    tell("seq", "integer", value)
    assert first(caplog) == f"timing logger: seq is {shown}, and must be an integer of 64 bits at most"


@pytest.mark.usefixtures("said")
def test_each_column_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    for column in ("seq", "seq", "peer", "seq"):
        tell(column, "integer", 1.5)
    assert [message.split()[2] for message in caplog.messages] == ["seq", "peer"]


@pytest.mark.usefixtures("said")
@pytest.mark.parametrize("kind", TAKES)
def test_what_the_column_takes_is_said(caplog: pytest.LogCaptureFixture, kind: str) -> None:
    tell("column", kind, None)
    assert first(caplog).endswith(f" and must be {TAKES[kind]}")
