"""mpi4py's own test suite, plain and under timing: does any test end otherwise?

    python tests/conformance/compare.py [--ranks 1,2,3,4] [--only test_comm,test_p2p] [--ways timed,native]

Fetches the source distribution of the installed mpi4py with pip, runs its suite with run_suite.py,
and prints how many tests ended how: ``timed`` by TimedIntracomm, ``native`` by the library of
``timing-logger run --native-mpi``. Ends with 1 if any differs from the plain run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
LIMIT_S = 1800.0
_ENVIRONMENT = {"PYTHONPATH": str(HERE.parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}

Outcomes = dict[str, str]


class Run(NamedTuple):
    """One run of the suite: how each test ended on each rank, the rows written, the time taken."""

    outcomes: list[Outcomes]
    rows: int
    seconds: float


def fetch_suite(folder: Path) -> Path:
    """The test folder of the installed version's source distribution, unpacked into ``folder``."""
    name = f"mpi4py-{version('mpi4py')}"
    suite = folder / name / "test"
    if not suite.exists():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        source = ["--no-binary", "mpi4py", "--dest", str(folder), name.replace("-", "==")]
        subprocess.run([*pip, *source], check=True)
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            # Without a filter newer Pythons warn, and the older 3.10 and 3.11 do not know of any.
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(folder, **safely)  # type: ignore[arg-type]
    return suite


def run_suite(way: str, ranks: int, suite: Path, options: list[str]) -> Run:
    """Run the suite on ``ranks`` ranks, ``way`` being ``plain``, ``timed`` or ``native``."""
    with tempfile.TemporaryDirectory() as output:
        native = [
            sys.executable,
            "-m",
            "timing_logger",
            "run",
            "--native-mpi",
            "--quiet",
            "--log-dir",
            output,
        ]
        launched = [*native, "--"] if way == "native" else []
        asked = "timed" if way == "timed" else "plain"
        launcher = [str(Path(sys.executable).parent / "mpiexec"), "-n", str(ranks)]
        program = [sys.executable, "-m", "mpi4py", str(HERE / "run_suite.py"), asked, output, str(suite)]
        started = time.monotonic()
        said = _run_to_end([*launched, *launcher, *program, "--quiet", "--no-builddir", *options])
        seconds = time.monotonic() - started
        reports: list[dict[str, Any]] = []
        for rank in range(ranks):
            path = Path(output) / f"{asked}-rank{rank}.json"
            if not path.exists():
                sys.exit(f"rank {rank} of the {way} run did not reach its end:\n{said[-3000:]}")
            reports.append(json.loads(path.read_text()))
        rows = sum(r["rows"] for r in reports) + _rows_in(Path(output))
    return Run([r["outcomes"] for r in reports], rows, seconds)


def _rows_in(folder: Path) -> int:
    """Count the rows of all timing files in ``folder``."""
    return sum(path.read_bytes().count(b"\n") - 1 for path in folder.glob("timing-rank*.csv"))


def _run_to_end(command: list[str]) -> str:
    job = subprocess.Popen(
        command, env={**os.environ, **_ENVIRONMENT}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        return job.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGTERM)
        sys.exit(f"not done in {LIMIT_S:g} s:\n{job.communicate()[0][-3000:]}")


def differences(plain: Run, other_run: Run, way: str) -> list[str]:
    """One line for each test that did not end alike on some rank."""
    lines = []
    for rank, (before, after) in enumerate(zip(plain.outcomes, other_run.outcomes, strict=True)):
        for test in sorted(before.keys() | after.keys()):
            one, other = before.get(test, "not run"), after.get(test, "not run")
            if _kind(one) != _kind(other):
                lines.append(f"rank {rank}: {test}\n    plain: {one}\n    {way}: {other}")
    return lines


def _kind(outcome: str) -> str:
    return outcome.partition(":")[0]


def describe(run: Run) -> str:
    counts = Counter(_kind(outcome) for outcomes in run.outcomes for outcome in outcomes.values())
    others = {kind: n for kind, n in counts.items() if kind not in ("ok", "skipped")}
    failed = ", ".join(f"{n} {kind}" for kind, n in sorted(others.items())) or "0 failed"
    return f"{counts['ok']:6d} ok {counts['skipped']:5d} skipped  {failed}  {run.seconds:6.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", default="1,2,3,4", help="numbers of ranks, with commas")
    parser.add_argument("--only", default="", help="test modules, with commas; default all")
    parser.add_argument("--suite", type=Path, default=Path(".venv/conformance"), help="where it is unpacked")
    parser.add_argument("--ways", default="timed", help="timed, native, or both with a comma")
    arguments = parser.parse_args()
    suite = fetch_suite(arguments.suite)
    options = [option for module in arguments.only.split(",") if module for option in ("-i", module)]
    print(f"mpi4py {version('mpi4py')}, its own tests; counts are over all ranks", flush=True)
    differing = []
    for ranks in map(int, arguments.ranks.split(",")):
        runs: dict[str, Run] = {}
        for way in ("plain", *arguments.ways.split(",")):
            run = runs[way] = run_suite(way, ranks, suite, options)
            rows = "" if way == "plain" else f"  {run.rows} rows"
            print(f"{ranks} ranks  {way:6s} {describe(run)}{rows}", flush=True)
            differing += [f"{ranks} ranks, {line}" for line in differences(runs["plain"], run, way)]
    print("\n".join(differing) if differing else "no test ends otherwise under timing")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
