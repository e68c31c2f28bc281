"""The source distribution: the same bytes each time, and what a build needs, and no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from limits import PROCESS_S
from places import ROOT

pytest.importorskip("setuptools", minversion="77", reason="setuptools is not installed, or too old")

pytestmark = pytest.mark.slow("three source distributions")

NEEDED = ("pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in", "README.md", "LICENSE")
PACKAGES = ("timing_logger", "allreduce_instrumentation")


def checkout(folder: Path, made_s: float) -> Path:
    """Copy what is built, with files from another time, beside what a run and the tests leave."""
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.so", "core.c")
        )
    for name in NEEDED:
        shutil.copy(ROOT / name, folder)
    for leftover in ("logs/run/timing-rank0.csv", "tests/schema/test_record.py", "site/index.html"):
        (folder / leftover).parent.mkdir(parents=True)
        (folder / leftover).write_text("")
    for path in folder.rglob("*"):
        os.utime(path, (made_s, made_s))
    return folder


def sdist(folder: Path, **environment: str) -> Path:
    run = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "sdist", "--formats", "gztar"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    (made,) = (folder / "dist").glob("*.tar.gz")
    return made


def members(archive: Path) -> set[str]:
    with tarfile.open(archive) as opened:
        return {member.name.partition("/")[2] for member in opened if member.isfile()}


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The source distributions of two checkouts of the same files, made at different times."""
    folders = [checkout(tmp_path_factory.mktemp("checkout"), made_s) for made_s in (1.7e9, 1.75e9)]
    return [sdist(folder, SOURCE_DATE_EPOCH="1760000000") for folder in folders]


def test_the_same_files_make_the_same_archive(twice: list[Path]) -> None:
    first, second = twice
    assert first.read_bytes() == second.read_bytes()


def test_all_files_are_of_the_stated_instant_and_of_nobody(twice: list[Path]) -> None:
    with tarfile.open(twice[0]) as opened:
        assert {(one.mtime, one.uid, one.gid, one.uname, one.gname) for one in opened} == {
            (1760000000, 0, 0, "", "")
        }


def test_it_has_what_a_build_needs(twice: list[Path]) -> None:
    found = members(twice[0])
    assert set(NEEDED) <= found
    endings = ("py", "pxi", "h", "c", "cpp", "js", "pth", "typed", "html")
    files = [path for package in PACKAGES for end in endings for path in (ROOT / package).rglob(f"*.{end}")]
    built = [path for path in files if path.name != "core.c"]
    assert len(built) > 300
    assert {str(path.relative_to(ROOT)) for path in built} - found == set()


def test_it_has_nothing_that_a_run_the_tests_or_the_site_leave(twice: list[Path]) -> None:
    places = {name.partition("/")[0] for name in members(twice[0]) if "/" in name}
    assert places == {*PACKAGES, "timing_logger.egg-info"}


def test_without_a_stated_instant_the_files_keep_their_own(tmp_path: Path) -> None:
    with tarfile.open(sdist(checkout(tmp_path, 1.7e9), SOURCE_DATE_EPOCH="")) as opened:
        assert (
            opened.getmember(next(name for name in opened.getnames() if name.endswith("/LICENSE"))).mtime
            == 1.7e9
        )
