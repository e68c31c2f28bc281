"""Copies of the tree, in which mutants are tried."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import warm

from mutants import reach
from mutants.mutations import Mutant

LIMIT_S = 1800.0  # for the tests of a mutant
HANGS, NO_IMPORT = "the time limit", "the import of the tests"
QUICK, SLOW = "not slow", "slow"
UNTRACED = "test_core_many_threads.py"
"""Its busy threads starve each other where each is traced: it is not asked what it reaches."""

TEST_LIMIT_S = {QUICK: 60, SLOW: 300}
KEPT = {
    "analysis": "analysis/test_analysis_of_known_runs.py",
    "cli": "cli/test_questions_of_known_folders.py",
    "comparison": "cli/test_questions_of_known_folders.py",
    "report": "cli/test_questions_of_known_folders.py",
    "results": "analysis/test_analysis_of_known_runs.py",
    "words": "cli/test_questions_of_known_folders.py",
}
"""The tests of whole answers, by the folder of what they answer with."""

_PYTEST = ["-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider"]
_TOOLS = Path(__file__).resolve().parents[1]  # where the plugin is
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_IS_FROM_HERE = """
import importlib, pathlib, sys
for name in sys.argv[1:]:
    file = pathlib.Path(importlib.import_module(name).__file__)
    assert file.is_relative_to(pathlib.Path.cwd()), f"{name} would be imported from {file}"
"""


class Copy:
    """A copy of what git knows or would take, and of what is compiled, for one mutant at a time."""

    def __init__(self, root: Path, folder: Path, packages: Sequence[str]) -> None:
        self._folder, self._changes, self._packages = folder, 0, packages
        self._untold: set[str] = set()
        compiled = [file for package in packages for file in (root / package).rglob("*.so")]
        for file in [*_files_of(root), *compiled]:
            copy = folder / file.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
        names = [".".join([*file.relative_to(root).parts[:-1], file.name.split(".")[0]]) for file in compiled]
        code, said = self._run("-c", _IS_FROM_HERE, *packages, *names)
        assert code == 0, said

    def learned(self, folder: Path) -> reach.Reach:
        """Run the quick tests of a folder of the tree, as they are, and learn which reach which line."""
        found = sorted((self._folder / folder).glob("test_*.py"))
        tests = [str(test.relative_to(self._folder)) for test in found if test.name != UNTRACED]
        into = self._folder / "build" / "reach" / folder
        into.mkdir(parents=True)
        told = {reach.FOLDER: str(into), reach.PACKAGES: ",".join(self._packages)}
        _, said = self._run(
            *_PYTEST, "-p", "mutants.reach", "-m", QUICK, f"--timeout={TEST_LIMIT_S[QUICK]}", *tests, **told
        )
        assert (into / "passed.json").exists(), said
        return reach.Reach(into, self._folder)

    def tried(
        self, mutant: Mutant, learned: Mapping[Path, reach.Reach], at_a_glance: bool = False
    ) -> tuple[str, str]:
        """Run the tests of a mutant, the slow ones last; return which kind noticed it, and a line of that.

        The kind is ``QUICK``, ``SLOW`` or, if it survived, blank. Of the quick ones those come first that are
        known to reach its line; at a glance no others are run.
        """
        what = mutant.said((self._folder / mutant.file).read_bytes())
        tests = mirroring(mutant.file, self._folder / "tests")
        in_order = list(dict.fromkeys(Path(test).parent for test in tests))
        folders = ", ".join(map(str, in_order))
        quickest = [
            test for folder in in_order for test in learned[folder].tests_of(mutant.file, mutant.line)
        ]
        stages = [(QUICK, quickest[: reach.MOST_TESTS])]
        if not at_a_glance:
            may_reach = [learned[folder].files_of(mutant.file, mutant.line) for folder in in_order]
            files = {UNTRACED}.union(*may_reach)
            whole_files = [test for test in tests if not files.isdisjoint((test, Path(test).name))]
            stages += [(QUICK, whole_files), (SLOW, nearest(mutant.file, self._folder / "tests"))]
        said = ""
        for kind, chosen in stages:
            failed, last_words = self._noticed_by(mutant, kind, chosen)
            said += f"{', ' if said else ''}{last_words}"
            if failed:
                return kind, f"noticed by {failed}: {what} ({said} in {folders})"
        return "", f"survived: {what} ({said} in {folders})"

    def _noticed_by(self, mutant: Mutant, kind: str, tests: Sequence[str]) -> tuple[str, str]:
        """Return the first test of a kind that fails because of a mutant, if any, and pytest's last words.

        A test that fails otherwise tells nothing, and is left out from then on.
        """
        while tests:
            with self._changed(mutant):
                left_out = [f"--deselect={test}" for test in self._untold]
                failed, said = self._failed("-m", kind, f"--timeout={TEST_LIMIT_S[kind]}", *tests, *left_out)
            if failed in ("", HANGS) or self._is_due_to(mutant, failed, kind, tests):
                return failed, said
            assert failed != NO_IMPORT, f"without any mutant, too, tests cannot be imported: {tests}"
            self._untold.add(failed)
        return "", "no such tests"

    def _is_due_to(self, mutant: Mutant, failed: str, kind: str, tests: Sequence[str]) -> bool:
        """Tell whether it fails with the mutant alone, once more: some tests fail on a busy machine."""
        again = (
            [f"--timeout={TEST_LIMIT_S[kind]}", failed]
            if failed != NO_IMPORT
            else ["--collect-only", *tests[:1]]
        )
        if self._failed(*again)[0]:
            return False
        with self._changed(mutant):
            return bool(self._failed(*again)[0])

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        path = self._folder / mutant.file
        source = path.read_bytes()
        self._write(path, mutant.applied(source))
        try:
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: bytes) -> None:
        """Write a source as of an instant of its own, so that Python compiles it again."""
        self._changes += 1
        path.write_bytes(source)
        os.utime(path, (self._changes, self._changes))

    def _failed(self, *arguments: str) -> tuple[str, str]:
        """Run tests up to the first that fails; return that, or nothing, and the last words of pytest."""
        code, said = self._run(*_PYTEST, "-x", *arguments)
        found = _FAILED.search(said)
        failed = HANGS if code is None else "" if code in (0, 5) else found[1] if found else NO_IMPORT
        return failed, said.strip().rpartition("\n")[2].strip("= ")

    def _run(self, *arguments: str, **told: str) -> tuple[int | None, str]:
        """Run Python in this copy and end what it leaves; return its exit code, or None, and output."""
        path = f"{self._folder}{os.pathsep}{_TOOLS}"
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **told}
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            process = subprocess.Popen(
                [warm.python(), *arguments], cwd=self._folder, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip
            ends = os.pidfd_open(process.pid)
            has_ended = bool(select.select([ends], [], [], LIMIT_S)[0])
            os.killpg(process.pid, signal.SIGKILL)  # its id is its own until it is waited for
            os.close(ends)
            code = process.wait()
            said.seek(0)
            return code if has_ended else None, said.read()


def _files_of(root: Path) -> list[Path]:
    """Return the files that git knows, or would take, as far as they are there."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return [file for name in listed.split("\0") if name and (file := root / name).is_file()]


def mirroring(file: Path, tests: Path) -> list[str]:
    """Return the files of tests of a module's folder, and then those of the folder around that.

    First come those that are called like the module, or a package of it whose tests have no folder.
    """
    folder, names = _place(file, tests)
    around = folder.parent.glob("test_*.py") if folder != tests else ()

    def order(test: Path) -> tuple[bool, int, str]:
        return test.parent != folder, _rank(test, names), test.name

    found = sorted([*folder.glob("test_*.py"), *around], key=order)
    return [str(test.relative_to(tests.parent)) for test in found]


def nearest(file: Path, tests: Path) -> list[str]:
    """Return the tests called like a module, and those of whole answers that it takes part in."""
    folder, names = _place(file, tests)
    called_like_it = [test for test in folder.glob("test_*.py") if _rank(test, names) < len(names)]
    whole = [tests / KEPT[part] for part in file.parts if part in KEPT]
    found = [*sorted(called_like_it, key=lambda test: (_rank(test, names), test)), *whole]
    return [str(test.relative_to(tests.parent)) for test in found if test.is_file()]


def _place(file: Path, tests: Path) -> tuple[Path, list[str]]:
    """Return the folder of a module's tests, and what files there may be called: its own name comes first."""
    *packages, module = file.with_suffix("").parts[1:]
    depth = len(packages)
    while depth and not any(tests.joinpath(*packages[:depth]).glob("test_*.py")):
        depth -= 1
    names = [name.strip("_") for name in (module, *reversed(packages[depth:]))]
    return tests.joinpath(*packages[:depth]), names


def _rank(test: Path, names: Sequence[str]) -> int:
    ranks = [rank for rank, name in enumerate(names) if f"{test.stem}_".startswith(f"test_{name}_")]
    return min(ranks, default=len(names))
