"""Imports that a program makes in its steps are rows, and are the imports that they would be without."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from weakref import ref

import pytest

from timing_logger import TimingLogger
from timing_logger.recording.watchers import pause_rows
from timing_logger.schema import defaults
from timing_logger.sinks.memory import MemorySink


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(defaults, "SHORTEST_IMPORT_NS", 0)
    (tmp_path / "lazy.py").write_text("import lazy_inner\n")
    (tmp_path / "lazy_inner.py").write_text("")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("lazy")]:
        del sys.modules[name]


@pytest.fixture
def recording(sink: MemorySink) -> TimingLogger:
    logger = TimingLogger(0, log_dir=None, sinks=[sink], pause_rows=True)
    logger.set_current_iteration(3)
    return logger


def imported(logger: TimingLogger, sink: MemorySink) -> list[object]:
    logger.close()
    return [row.layer_name for row in sink.records if row.operation == "IMPORT"]


def test_an_import_is_one_row_with_all_that_it_imports(
    folder: Path, recording: TimingLogger, sink: MemorySink
) -> None:
    importlib.import_module("lazy")
    importlib.import_module("lazy")  # which is there by now
    assert imported(recording, sink) == ["lazy"]
    assert [row.iteration for row in sink.records if row.operation == "IMPORT"] == [3]


def test_it_has_the_instants_of_the_import(folder: Path, recording: TimingLogger, sink: MemorySink) -> None:
    with recording.operation("AROUND"):
        importlib.import_module("lazy")
    recording.close()
    row, around = (row for row in sink.records if row.operation in ("IMPORT", "AROUND"))
    assert around.start_ns < row.start_ns < (row.end_ns or 0) < (around.end_ns or 0)


def test_parts_of_packages_are_named_after_their_packages(
    folder: Path, recording: TimingLogger, sink: MemorySink
) -> None:
    (folder / "lazy_package").mkdir()
    (folder / "lazy_package" / "__init__.py").write_text("")
    (folder / "lazy_package" / "part.py").write_text("")
    importlib.import_module("lazy_package.part")
    assert imported(recording, sink) == ["lazy_package", "lazy_package.part"]


@pytest.mark.parametrize("broken", ["1 / 0", "import lazy_nowhere"])
def test_an_import_that_fails_ends_and_the_next_has_its_row(
    folder: Path, recording: TimingLogger, sink: MemorySink, broken: str
) -> None:
    (folder / "lazy_broken.py").write_text(broken)
    with pytest.raises((ZeroDivisionError, ModuleNotFoundError)):
        importlib.import_module("lazy_broken")
    importlib.import_module("lazy")
    assert imported(recording, sink) == ["lazy_broken", "lazy"]


def test_a_short_import_has_no_row(
    folder: Path, recording: TimingLogger, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "SHORTEST_IMPORT_NS", 10**15)
    importlib.import_module("lazy")
    assert imported(recording, sink) == []


def test_what_is_imported_before_the_first_iteration_belongs_to_no_step(
    folder: Path, sink: MemorySink
) -> None:
    logger = TimingLogger(0, log_dir=None, sinks=[sink], pause_rows=True)
    importlib.import_module("lazy")
    assert imported(logger, sink) == []


def test_imports_of_other_threads_stop_nobody(
    folder: Path, recording: TimingLogger, sink: MemorySink
) -> None:
    thread = threading.Thread(target=importlib.import_module, args=("lazy",))
    thread.start()
    thread.join()
    assert imported(recording, sink) == []


def test_a_look_whether_there_is_a_module_is_no_import(
    folder: Path, recording: TimingLogger, sink: MemorySink
) -> None:
    found = importlib.util.find_spec("lazy")
    assert found is not None
    assert type(found.loader) is importlib.machinery.SourceFileLoader
    assert imported(recording, sink) == []


def test_the_module_says_of_itself_what_it_says_without_rows(folder: Path, recording: TimingLogger) -> None:
    module = importlib.import_module("lazy")
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert module.__spec__ is not None
    assert module.__spec__.loader is module.__loader__


def test_no_import_is_seen_once_all_loggers_are_closed(recording: TimingLogger) -> None:
    during = list(sys.meta_path)
    with TimingLogger(0, log_dir=None, sinks=[MemorySink()], pause_rows=True):
        assert sys.meta_path == during
    assert sys.meta_path == during
    recording.close()
    assert sys.meta_path == during[1:]


@pytest.mark.parametrize(("lasts_ms", "names"), [(60, ["module"]), (40, [])])
def test_an_import_of_50_ms_or_more_has_a_row(
    monkeypatch: pytest.MonkeyPatch,
    recording: TimingLogger,
    sink: MemorySink,
    lasts_ms: int,
    names: list[str],
) -> None:
    monkeypatch.setattr(pause_rows, "perf_counter_ns", lambda: 10**9 + lasts_ms * 10**6)
    pause_rows._Watch()._ended("module", 10**9, ref(recording))
    assert imported(recording, sink) == names
