"""The worlds of a run are told apart, and of the others it is said how to ask for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from sidecars import states

from timing_logger.errors import ConfigurationError
from timing_logger.reading.runs_of_job import of_world, stated_by
from timing_logger.reading.sources import Source
from timing_logger.schema.timing_files import TimingFile

FIRST = "the world that was started first"


def source(folder: Path, rank: int, incarnation: int, **sidecar: object) -> Source:
    name = TimingFile(rank, incarnation)
    if sidecar:
        states(folder / name.name, **sidecar)
    return Source([folder / name.name], name)


@pytest.fixture
def spawned(tmp_path: Path) -> list[Source]:
    """Two ranks that spawned two worlds; the files of a rank are numbered one after the other."""
    return [
        source(tmp_path, 0, 1),
        source(tmp_path, 0, 2, world="b"),
        source(tmp_path, 0, 3, world="a"),
        source(tmp_path, 0, 4, world="a"),
        source(tmp_path, 1, 1),
        source(tmp_path, 1, 2, world="a"),
    ]


def names(sources: list[Source]) -> list[tuple[int, int]]:
    return [(one.name.rank, one.name.incarnation) for one in sources]


def test_the_world_that_was_started_first_is_meant_if_none_is_asked_for(spawned: list[Source]) -> None:
    found = of_world({"run": spawned}, "")["run"]
    assert names(found.sources) == [(0, 1), (1, 1)]
    assert found.about == (
        f"This is about {FIRST}. The run also has the spawned world a (--world a), 2 ranks; the spawned "
        "world b (--world b), 1 rank."
    )
    assert [(TimingFile.parse(path.name), why) for path, why in found.left_out] == [
        (TimingFile(0, 3), "of the spawned world a"),
        (TimingFile(0, 4), "of the spawned world a"),
        (TimingFile(1, 2), "of the spawned world a"),
        (TimingFile(0, 2), "of the spawned world b"),
    ]


def test_the_files_of_a_world_are_numbered_by_their_places_among_those_of_their_rank_in_it(
    spawned: list[Source],
) -> None:
    found = of_world({"run": spawned}, "a")["run"]
    assert names(found.sources) == [(0, 1), (0, 2), (1, 1)]
    assert found.about == (
        f"This is about the spawned world a. The run also has {FIRST}, 2 ranks; the spawned world b "
        "(--world b), 1 rank."
    )


def test_a_run_without_a_file_of_the_first_world_is_about_the_first_by_name(spawned: list[Source]) -> None:
    found = of_world({"run": [one for one in spawned if stated_by(one, "world")]}, "")["run"]
    assert names(found.sources) == [(0, 1), (0, 2), (1, 1)]
    assert found.about.startswith("This is about the spawned world a.")


def test_a_run_of_one_world_keeps_its_numbers_and_nothing_is_said(tmp_path: Path) -> None:
    for sidecar in ({}, {"world": "a"}):
        found = of_world({"run": [source(tmp_path, 0, 7, **sidecar)]}, "")["run"]
        assert (names(found.sources), found.left_out, found.about) == ([(0, 7)], [], "")


def test_of_several_runs_those_are_found_that_have_the_world(spawned: list[Source], tmp_path: Path) -> None:
    runs = {"one": spawned, "other": [source(tmp_path, 5, 1)]}
    assert list(of_world(runs, "")) == ["one", "other"]
    assert list(of_world(runs, "a")) == ["one"]


def test_a_world_that_is_in_no_run_is_an_error_that_names_those_that_are(spawned: list[Source]) -> None:
    with pytest.raises(ConfigurationError, match=r"no world 'c' .* The spawned worlds in them: a, b\.$"):
        of_world({"run": spawned}, "c")
    with pytest.raises(ConfigurationError, match=r"no world 'c' .* None of their runs spawned one\.$"):
        of_world({"run": spawned[:1]}, "c")


def test_what_is_no_text_states_nothing(tmp_path: Path) -> None:
    found = [source(tmp_path, 0, 1), source(tmp_path, 1, 1, world=3), source(tmp_path, 2, 1, world="a")]
    assert [stated_by(one, "world") for one in found] == ["", "", "a"]
