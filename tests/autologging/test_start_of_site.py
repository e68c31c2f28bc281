"""What starts the timing in each Python of a job, under another name here: when, and what it leaves."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import timing_logger

SITE = Path(timing_logger.__file__).parent / "autologging" / "site" / "_timing_logger_start.py"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, whose start only notes that it was; nothing of what ranks import is there yet."""
    spec = importlib.util.spec_from_file_location("start_of_site", SITE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_OF_RANKS", ("for_ranks",))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield module
    sys.modules.pop("for_ranks", None)


@pytest.fixture
def starts(site: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(site, "_start", lambda: found.append("started"))
    return found


def test_it_starts_when_something_of_ranks_is_looked_for_and_once(
    site: ModuleType, starts: list[str], tmp_path: Path
) -> None:
    (tmp_path / "for_ranks.py").write_text("made = 7\n")
    sys.path.insert(0, str(tmp_path))
    n_finders = len(sys.meta_path)
    site.wait_for_ranks()
    site.wait_for_ranks()
    assert len(sys.meta_path) == n_finders + 1
    assert sys.meta_path[0].find_spec("json", None) is None
    assert starts == []
    assert importlib.import_module("for_ranks").made == 7
    assert starts == ["started"]
    assert len(sys.meta_path) == n_finders


def test_where_something_of_ranks_is_imported_already_it_starts_at_once(
    site: ModuleType, starts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "for_ranks", ModuleType("for_ranks"))
    finders = [*sys.meta_path]
    for _ in range(2):
        site.wait_for_ranks()
    assert starts == ["started"]
    assert sys.meta_path == finders


def test_a_finder_that_is_no_longer_asked_finds_nothing_and_starts_nothing(
    site: ModuleType, starts: list[str]
) -> None:
    assert site._Waiting().find_spec("for_ranks") is None
    assert starts == []


@pytest.mark.parametrize("error", [ValueError("wrong"), SystemExit("wrong")])
def test_what_goes_wrong_is_left_where_the_command_looks_for_it(
    site: ModuleType, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr(site, "_start", fails)
    monkeypatch.setenv("TIMING_LOGGER_AUTOLOG", json.dumps({"log_dir": str(tmp_path)}))
    monkeypatch.setenv("TIMING_LOGGER_RUN_ID", "job7")
    site._start_quietly()
    said = (tmp_path / f"autolog-problem-job7-{os.getpid()}.txt").read_text()
    assert said == f"{type(error).__name__}: wrong\n"
    monkeypatch.setenv("TIMING_LOGGER_AUTOLOG", "{")
    site._start_quietly()  # what is nowhere to be said harms nobody


def found_as(spec: object) -> Callable[[str], object]:
    return lambda name: spec


def test_a_package_of_the_name_that_is_another_is_said_to_be_that(
    site: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for places in (None, [str(tmp_path)]):
        spec = SimpleNamespace(origin="theirs.py", submodule_search_locations=places)
        monkeypatch.setattr(importlib.util, "find_spec", found_as(spec))
        with pytest.raises(ImportError, match=r"the name timing_logger is taken by theirs\.py: rename it"):
            site._start()


def test_where_the_package_is_not_found_its_folder_is_the_last_on_the_path(
    site: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from timing_logger.autologging import start

    asked: list[str] = []
    monkeypatch.setattr(start, "start_if_asked", lambda: asked.append("asked"))
    before = [*sys.path]
    site._start()
    assert (asked, sys.path) == (["asked"], before)
    monkeypatch.setattr(importlib.util, "find_spec", found_as(None))
    site._start()
    assert asked == ["asked"] * 2
    assert sys.path == [*before, str(SITE.parents[3])]


def test_a_folder_without_the_package_ends_the_search_at_the_root(
    site: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(site, "__file__", str(tmp_path / "start.py"))
    monkeypatch.setattr(os.path, "isdir", lambda _: False)  # wherever tests have their folders
    assert site._folder_of_the_package() == os.path.abspath(os.sep)
