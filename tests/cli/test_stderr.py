"""What is said beside an answer is a line with the command's name; where it cannot be, nothing else fails."""

from __future__ import annotations

import io
import sys

import pytest

from timing_logger.cli.stderr import say


def test_each_line_begins_with_the_name_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    say("one", "two")
    assert capsys.readouterr().err == "timing-logger: one\ntiming-logger: two\n"


@pytest.mark.skipif(sys.platform != "linux", reason="writes to /dev/full")
def test_what_a_full_disk_did_not_take_does_not_fail_again_at_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        say("lost")
        full.flush()


def test_where_stderr_is_closed_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    for _ in range(2):
        say("lost")
        assert sys.stderr is None
