"""What the command prints about known folders, kept in ``golden/printed``: whoever changes a word sees it.

Usage: ``printed_answers.py`` writes the files again. Look at the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from compared_runs import write_runs
from hung_runs import Rank, allreduce, counted, inflight, open_call, trained, waiting, write_run
from known_answers import digest, in_parts, plain, scenarios
from page_data import unpacked
from places import ROOT, TESTS
from runs_with_counters import write_run_with_counters
from small_run import visible_text, write_small_run
from timing_files import write_table
from verdict_accuracy.simulation import simulate

from timing_logger.cli import main as command

GOLDEN = TESTS / "golden" / "printed"
WIDTH = 100
RING = "SENDRECV ring / all rows / steady / link later / 8 / 60 steps"

OF_EACH = ("summary", "stragglers", "hang", "waits", "bandwidth", "what-if")
"""The plainest questions."""

PLAIN = (
    *OF_EACH, "summary --by operation,phase", "overlap", "compression", "what-if --fix rank=1",
)  # fmt: skip
QUESTIONS = (*PLAIN, *(f"{question} --json" for question in PLAIN), "report", "trace -o trace.json")
OF_RUNS = ("compare", "compare --all --json", "compare --report report.html")
"""What the runs of a folder are asked, which are compared with those of the folder ``BEFORE``."""


def _hung(folder: Path) -> None:
    late = Rank(trained(9), progressed_s=9.4, sidecar={"open_calls": [open_call("FORWARD", 9.4)]})
    write_run(folder, waiting(open_calls=[open_call()], groups=[counted(11, 10)]), waiting(), late, waiting())


def _died(folder: Path) -> None:
    killed = Rank(trained(6), seen_s=6.0, progressed_s=6.0, sidecar={"signal": "SIGTERM"})
    ended = Rank([*trained(), inflight("RECV", peer=1, group="", seq=None)], closed=True)
    write_run(folder, ended, killed, Rank([*trained(), allreduce(10)], closed=True), world_size=4)


def _ring(folder: Path) -> None:
    scenario = scenarios()[RING]._replace(steps=20, ranks=4)
    blank = {"epoch": None, "phase": "train"}
    write_table(folder, simulate(scenario, seed=1).timings.assign(**blank))


def _slower(folder: Path) -> None:
    write_runs(Path(BEFORE), 5, noise=0.003, seed=1)
    write_runs(folder, 5, noise=0.003, seed=2, longer_ms={"FORWARD": 1.0})


def _sample(folder: Path) -> None:
    folder.symlink_to(ROOT / "logs" / "sample")


MOST_ASKED, BEFORE = "small", "before"

FOLDERS: dict[str, Callable[[Path], object]] = {
    "small": write_small_run,
    "counters": write_run_with_counters,
    "hung": _hung,
    "died": _died,
    "ring": _ring,
    "sample": _sample,
    "slower": _slower,
}
"""What writes each folder."""


def printed(folder: str, questions: Sequence[str]) -> dict[str, str]:
    """Return what each question's command prints about a folder, with its exit code where that is not 0."""
    before = Path.cwd()
    in_no_repository = mock.patch.object(sys, "argv", ["timing-logger"])  # whose commit sidecars would state
    wide = mock.patch.dict(os.environ, {"COLUMNS": str(WIDTH)})
    with tempfile.TemporaryDirectory() as place, wide, in_no_repository:
        runs = Path(place, "runs")
        runs.mkdir()
        os.chdir(runs)
        try:
            FOLDERS[folder](Path(folder))
            return {question: _said(question, folder) for question in questions}
        finally:
            os.chdir(before)


def _said(question: str, folder: str) -> str:
    name, *options = shlex.split(question)
    if name == "compare":
        options += ["--against", BEFORE]
    output, beside = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(beside):
            code = command([name, folder, *options])
    except SystemExit as end:
        code = int(end.code or 0)
    said = output.getvalue()
    if "report" in question:
        page = Path("report.html").read_text()
        said = visible_text(page) + _drawn(page)
    if name == "trace":
        events = json.loads(Path("trace.json").read_text())["traceEvents"]
        by_kind = {
            kind: [one for one in events if one["ph"] == kind] for kind in {one["ph"] for one in events}
        }
        said = json.dumps(in_parts(plain(by_kind)), indent=1, sort_keys=True) + "\n"
    if "--json" in options and not code:
        said = json.dumps(in_parts(plain(json.loads(said))), indent=1) + "\n"
    said = beside.getvalue() + said
    return said if not code else f"{said}exit code {code}\n"


def _drawn(page: str) -> str:
    """Return a digest of each section of a page, with all that it draws, and of each part of its data."""
    pieces = re.split(r'<section id="([a-z-]+)"', page.partition("<script")[0])
    parts = {f"section {name}": text for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    if data:
        parts |= {f"data {name}": plain(_unpacked(part)) for name, part in json.loads(data[1]).items()}
    return "".join(f"{name}: {digest(part)}\n" for name, part in parts.items())


def _unpacked(part: Any) -> Any:
    if isinstance(part, dict):
        return unpacked(part) if "deflated" in part else {name: _unpacked(one) for name, one in part.items()}
    return [_unpacked(one) for one in part] if isinstance(part, list) else part


def questions_of(folder: str) -> tuple[str, ...]:
    """Return all that a folder is asked."""
    return (
        OF_RUNS
        if folder == "slower"
        else (*QUESTIONS, "stragglers --why")
        if folder == MOST_ASKED
        else QUESTIONS
    )


def file_of(folder: str) -> Path:
    return GOLDEN / f"{folder}.txt"


def kept(folder: str) -> dict[str, str]:
    """Return what is kept of a folder, by question."""
    parts = re.split(r"^\$ timing-logger (.*)\n", file_of(folder).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for folder in FOLDERS:
        said = printed(folder, questions_of(folder))
        file_of(folder).write_text("".join(f"$ timing-logger {name}\n{text}" for name, text in said.items()))


if __name__ == "__main__":
    main()
