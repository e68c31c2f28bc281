"""Of a long file that is first looked at, only the end is read, and from then on what is added."""

from __future__ import annotations

from pathlib import Path

import pytest
from timing_files import content, record

from timing_logger.live import tails
from timing_logger.live.newest_files import Sidecars
from timing_logger.live.tails import Tail
from timing_logger.schema.timing_files import TimingFile

ROWS_OF_PART = 3


@pytest.fixture
def parts(tmp_path: Path) -> dict[int, Path]:
    """Three parts of a file, equally long."""
    paths = {part: tmp_path / TimingFile(0, part=part).name for part in (1, 2, 3)}
    for part, path in paths.items():
        path.write_bytes(content([record("FORWARD", iteration=part, seq=i) for i in range(ROWS_OF_PART)]))
    return paths


def tail_of(parts: dict[int, Path]) -> Tail:
    tail = Tail(TimingFile(0))
    tail.read(parts, Sidecars())
    return tail


@pytest.mark.parametrize(("more_bytes", "n_parts"), [(0, 1), (1, 2)])
def test_the_first_look_reads_as_many_of_the_last_parts_as_have_its_bytes(
    parts: dict[int, Path], monkeypatch: pytest.MonkeyPatch, more_bytes: int, n_parts: int
) -> None:
    monkeypatch.setattr(tails, "_FIRST_LOOK_BYTES", parts[3].stat().st_size + more_bytes)
    assert tail_of(parts).n_read == n_parts * ROWS_OF_PART


def test_a_later_look_reads_what_was_added_to_the_last_part_and_all_of_new_ones(
    parts: dict[int, Path], tmp_path: Path
) -> None:
    tail = tail_of({1: parts[1], 2: parts[2]})
    with parts[2].open("ab") as file:
        file.write(content([record("FORWARD", iteration=2, seq=9)]).split(b"\n", 1)[1])
    tail.read(parts, Sidecars())
    assert (tail.n_read, tail.iteration, tail.generation) == (3 * ROWS_OF_PART + 1, 3, 0)


def test_another_file_of_the_name_is_read_anew(parts: dict[int, Path]) -> None:
    tail = tail_of({1: parts[1]})
    parts[1].write_bytes(content([record("FORWARD", start_s=7.0, iteration=8)]))
    tail.read({1: parts[1]}, Sidecars())
    assert (tail.n_read, tail.iteration, tail.generation) == (1, 8, 1)
