"""Arguments of the commands: what they are if nobody gives them, as the help says it, and what is meant."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from timing_logger.cli import parser as cli_parser
from timing_logger.cli.parser import build_parser
from timing_logger.cli.queries import terminal_width
from timing_logger.process import which_core


def parsed(*arguments: str) -> Namespace:
    return build_parser().parse_args(arguments)


def of(arguments: Namespace, *names: str) -> tuple[Any, ...]:
    return tuple(getattr(arguments, name) for name in names)


# -- what nobody gives -----------------------------------------------------------------------------------


def test_run_records_each_iteration_and_all_that_its_options_leave_out() -> None:
    found = parsed("run", "--", "python", "train.py")
    assert of(found, "log_dir", "report", "every", "monitor_every") == ("logs/run", None, 1, 5.0)
    flags = ("no_batch_work", "no_host_counters", "sample_stacks", "native_mpi", "monitor", "quiet")
    assert of(found, *flags) == (False,) * 6
    assert of(found, "webhook", "prometheus", "shown_as") == (None, None, "")


def test_compare_keeps_twenty_runs_and_calls_one_percent_a_slowdown() -> None:
    found = parsed("compare", "a", "b")
    assert found.runs == ["a", "b"]
    assert of(found, "against", "history", "keep", "report") == (None, None, 20, None)
    assert of(found, "max_regression", "fail_on", "engine") == (0.01, (), "auto")
    assert of(found, "no_add", "accept", "paired", "all", "json") == (False,) * 5
    assert parsed("compare", "a", "--against", "b", "c").against == ["b", "c"]


def test_watch_looks_every_two_seconds_at_thirty() -> None:
    found = parsed("watch")
    assert of(found, "logdir", "interval", "window", "serve", "address") == (None, 2.0, 30.0, None, None)
    assert of(found, "all", "once", "verdict", "json", "open") == (False,) * 5
    assert found.shown_as == ""


@pytest.mark.parametrize(("serve", "port"), [(["--serve"], 0), (["--serve", "8080"], 8080)])
def test_watch_serves_at_a_free_port_unless_one_is_given(serve: list[str], port: int) -> None:
    assert parsed("watch", "logs", *serve).serve == port


@pytest.mark.parametrize("command", ["summary", "stragglers", "waits", "report", "trace"])
def test_what_reads_rows_reads_all_of_the_last_run(command: str) -> None:
    found = parsed(command)
    assert found.logdir == []
    assert of(found, "ranks", "iterations", "run", "world", "engine") == (None, None, "latest", "", "auto")
    assert found.shown_as == command
    assert parsed(command, "a", "b").logdir == ["a", "b"]


def test_what_is_written_has_a_name() -> None:
    assert parsed("report").output == "report.html"
    assert parsed("trace").output == "trace.json.gz"
    assert of(parsed("convert"), "to", "output", "shown_as") == ("parquet", None, "convert")


def test_a_question_that_is_not_of_iterations_takes_none(capsys: pytest.CaptureFixture[str]) -> None:
    others = [one for one in cli_parser.QUESTIONS if not one.of_iterations]
    assert [one.name for one in others]
    for question in others:
        assert parsed(question.name).iterations is None
        assert "--iterations" not in _help(question.name, capsys)
    assert "--iterations" in _help("summary", capsys)


def _help(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        parsed(command, "--help")
    return capsys.readouterr().out


def test_the_help_of_a_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert "example: timing-logger run -- torchrun --nproc-per-node 4 train.py" in _help("run", capsys)
    assert "example: timing-logger report logs/timing" in _help("report", capsys)


# -- what was meant --------------------------------------------------------------------------------------


def error_of(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as exit_info:
        cli_parser.main(arguments)
    assert exit_info.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (["sumry"], "Did you mean 'summary'?"),
        (["watch", "--intervall", "3"], "Did you mean '--interval'?"),
        (["watch", "--onc3"], "Did you mean '--once'?"),
        (["stragglers", "--once"], "unrecognized arguments: --once"),
    ],
)
def test_a_mistyped_name_is_taken_for_one_that_is_much_alike(
    arguments: list[str], end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error_of(arguments, capsys).endswith(end)


# -- the version -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("note", "end"), [("", "the python core."), ("it is slow", "the python core: it is slow.")]
)
def test_the_version_says_which_core_records_and_why(
    note: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(which_core, "NAME", "python")
    monkeypatch.setattr(which_core, "NOTE", note)
    monkeypatch.setattr(cli_parser, "version", lambda name: f"1.2 of {name}")
    assert cli_parser._version() == f"timing-logger 1.2 of timing_logger. Records with {end}"


def test_a_package_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(cli_parser, "version", unknown)
    assert cli_parser._version().startswith("timing-logger (not installed). Records with")


# -- the terminal ----------------------------------------------------------------------------------------


def test_a_report_is_as_wide_as_the_terminal_within_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def width_at(columns: int) -> int:
        monkeypatch.setenv("COLUMNS", str(columns))
        return terminal_width()

    assert width_at(100) == 100
    assert 0 < width_at(1) == width_at(2) < 80
    assert 120 <= width_at(100_000) == width_at(99_999) < 1000
