"""How far work has come is told to who listens, while they listen."""

from __future__ import annotations

import pytest

from timing_logger.process.progress import begin, each, heard_by, progress_callback, step, steps


class Notes:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def begin(self, stage: str, n_steps: int) -> None:
        self.heard.append((stage, n_steps))

    def done(self, n_steps: int) -> None:
        self.heard.append(("done", n_steps))


def test_an_item_is_done_when_the_next_is_asked_for() -> None:
    notes = Notes()
    with heard_by(notes):
        items = each("reading", ["a", "b"])
        assert next(items) == "a"
        assert notes.heard == [("reading", 2)]
        assert next(items) == "b"
        assert notes.heard == [("reading", 2), ("done", 1)]
        assert list(items) == []
    assert notes.heard == [("reading", 2), ("done", 1), ("done", 2)]


def test_each_stage_is_counted_from_its_beginning() -> None:
    notes = Notes()
    with heard_by(notes):
        for stage in ("finding", "reading"):
            begin(stage, 1)  # type: ignore[arg-type]
            step()
    assert notes.heard == [("finding", 1), ("done", 1), ("reading", 1), ("done", 1)]


def test_steps_go_on_with_the_stage_that_has_begun() -> None:
    notes = Notes()
    with heard_by(notes):
        begin("answering", 3)
        assert list(steps("ab")) == ["a", "b"]
        step()
    assert notes.heard == [("answering", 3), ("done", 1), ("done", 2), ("done", 3)]


def test_a_callback_begins_its_stage_once() -> None:
    notes = Notes()
    with heard_by(notes):
        report = progress_callback("writing")
        report(1, 3)
        report(3, 3)
    assert notes.heard == [("writing", 3), ("done", 1), ("done", 3)]


def test_where_nobody_listens_nothing_happens() -> None:
    begin("finding", 1)
    step()
    progress_callback("writing")(1, 2)
    assert list(each("reading", [1, 2])) == [1, 2]


def test_after_its_block_a_listener_hears_nothing_even_if_the_work_failed() -> None:
    notes = Notes()
    with pytest.raises(KeyError), heard_by(notes):
        raise KeyError
    begin("reading", 1)
    step()
    assert notes.heard == []
