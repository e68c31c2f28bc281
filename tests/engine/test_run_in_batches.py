"""How many files are read at a time, and when the first tells whether memory has room for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.engine import run
from timing_logger.engine.run import Result
from timing_logger.engine.workers import Processes, Threads
from timing_logger.process.progress import heard_by

LEAST_LINE_BYTES, TIMES_THE_TABLE = 80, 3


def query_of(*sizes: Sequence[int]) -> Any:
    """Return a query of batches of files, each of so many bytes."""
    batches = [[(SimpleNamespace(n_bytes=n_bytes), None) for n_bytes in batch] for batch in sizes]
    return SimpleNamespace(batches=batches)


@pytest.mark.parametrize(
    ("row_bytes", "together"), [([], 0), ([0, 0], 0), ([100], 100), ([100, 0, 40], 250), ([40, 100, 7], 400)]
)
def test_an_analysis_answers_while_the_rows_of_the_others_are_kept(
    row_bytes: list[int], together: int
) -> None:
    analyses: Any = [SimpleNamespace(row_bytes=each) for each in row_bytes]
    assert run._row_bytes(analyses) == together


@pytest.mark.parametrize(
    ("batches_that_fit", "cores", "most"),
    [(9, 9, 3), (2, 9, 2), (9, 2, 2), (2.9, 9, 2), (0.5, 9, 1), (0, 9, 1), (9, 1, 1)],
)
def test_as_many_work_as_can_hold_a_batch_each(
    monkeypatch: pytest.MonkeyPatch, batches_that_fit: float, cores: int, most: int
) -> None:
    largest_bytes = 1000 + 500
    free_bytes = batches_that_fit * TIMES_THE_TABLE * largest_bytes
    monkeypatch.setattr(run, "free_memory_bytes", lambda: free_bytes)
    monkeypatch.setattr(run, "usable_cores", lambda: cores)
    assert run._most_workers(query_of([1000], [1000, 500], [1200])) == most


def test_files_that_are_empty_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "free_memory_bytes", lambda: 9.0)
    monkeypatch.setattr(run, "usable_cores", lambda: 9)
    assert run._most_workers(query_of([0], [0], [0], [0])) == 3


def test_up_to_four_files_at_a_time_are_read_by_threads_and_more_by_processes() -> None:
    few, many = run._threads_or_processes(4), run._threads_or_processes(5)
    assert (type(few), few.most, type(many), many.most) == (Threads, 4, Processes, 5)


class Reading:
    """Reads batches of 800 and 1600 bytes, for an analysis that takes 10 bytes for each row."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free_bytes: float) -> None:
        self.required: list[int] = []
        self.mapped: list[int] = []
        monkeypatch.setattr(run, "free_memory_bytes", lambda: free_bytes)
        monkeypatch.setattr(run, "require_room", self.required.append)

    def read(self, *sizes: Sequence[int]) -> list[int]:
        """Return of each batch what was made of it: its bytes."""
        plan: Any = SimpleNamespace(part_of=self._part_of)
        parts = run._read(plan, 10, query_of(*(sizes or ([800], [1000, 600]))), self)
        return [part.of_processes[0] for part in parts]

    @staticmethod
    def _part_of(batch: Any) -> Any:
        n_bytes = sum(source.n_bytes for source, _ in batch)
        return run._Part([n_bytes], None, n_communication=4)

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        self.mapped.append(len(items))
        return [function(item) for item in items]


def test_where_memory_has_room_for_the_shortest_lines_no_batch_is_asked_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = Reading(monkeypatch, 10 * (2400 // LEAST_LINE_BYTES) + 1)
    assert reading.read() == [800, 1600]
    assert (reading.mapped, reading.required) == ([2], [])


def test_else_the_first_batch_tells_how_much_all_need(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch, 10 * (2400 // LEAST_LINE_BYTES))
    assert reading.read() == [800, 1600]
    assert (reading.mapped, reading.required) == ([1], [10 * 4 * 3])


def test_a_first_batch_of_empty_files_tells_as_much_as_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch, 0)
    assert reading.read([0], [5]) == [0, 5]
    assert reading.required == [10 * 4 * 5]


def test_the_answer_of_a_result_is_that_of_its_only_analysis() -> None:
    assert Result(("all is well",), "pandas").answer == "all is well"
    with pytest.raises(ValueError, match="too many values"):
        _ = Result(("one", "another"), "pandas").answer


@pytest.mark.parametrize(
    ("workers", "cluster", "engine", "n_kept"),
    [(Threads(2), None, "pyarrow", 1), (Processes(5), None, "pyarrow", 0), (None, "a cluster", "cluster", 0)],
)
def test_freed_memory_is_kept_for_threads_and_who_read_is_told(
    monkeypatch: pytest.MonkeyPatch, workers: Any, cluster: Any, engine: str, n_kept: int
) -> None:
    kept: list[int] = []
    asked: list[Any] = []
    monkeypatch.setattr(run, "keep_freed_memory", lambda: kept.append(1))
    monkeypatch.setattr(run, "_most_workers", lambda query: 1)
    monkeypatch.setattr(run, "_threads_or_processes", lambda most: workers)
    monkeypatch.setattr(run, "answers_in_batches", lambda analyses, query, by: asked.append(by) or analyses)
    query: Any = SimpleNamespace(timing_files=SimpleNamespace(engine="pyarrow"))
    analysis: Any = "analysis"
    assert run.run(query, analysis, cluster=cluster) == Result(("analysis",), engine, by_file=True)
    assert (len(kept), asked) == (n_kept, [workers or cluster])


def test_reading_is_a_stage_of_a_step_for_each_batch_and_answering_of_one_for_each_analysis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[tuple[str, int]] = []

    class Listener:
        def begin(self, stage: str, n_steps: int) -> None:
            heard.append((stage, n_steps))

        def done(self, n_steps: int) -> None: ...

    with heard_by(Listener()):
        reading = Reading(monkeypatch, 1e9)
        reading.read()
        assert heard == [("reading", 2)]
        query = query_of([800])
        query.rows_of = None
        monkeypatch.setattr(run, "_read", lambda *given: [])
        assert run.answers_in_batches([], query, reading) == ()
    assert heard == [("reading", 2), ("answering", 0)]
