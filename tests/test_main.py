"""``python -m timing_logger`` is the command, and an import of its module is nothing."""

from __future__ import annotations

import runpy
import sys
from contextlib import nullcontext

import pytest


@pytest.mark.parametrize(("name", "runs"), [("__main__", True), ("__mp_main__", False)])
def test_the_module_is_the_command_where_it_is_run_and_not_in_worker_processes(
    name: str, runs: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["timing-logger", "--version"])
    with pytest.raises(SystemExit) if runs else nullcontext():
        runpy.run_module("timing_logger.__main__", run_name=name)
    assert bool(capsys.readouterr().out) is runs
