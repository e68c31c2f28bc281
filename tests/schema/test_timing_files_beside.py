"""The names of files beside a timing file."""

from __future__ import annotations

from pathlib import Path

import pytest

from timing_logger.schema.timing_files import HOST, KINDS, FilesBeside, TimingFile


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [TimingFile(0), TimingFile(3, 2), TimingFile(3, 2, 4)])
def test_it_has_rank_incarnation_and_part_of_the_timing_file(name: TimingFile, kind: FilesBeside) -> None:
    path = kind.path(Path("logs", name.name))
    assert path == Path("logs", name.name.replace("timing", kind.kind))
    assert kind.parse(path.name) == name


@pytest.mark.parametrize(
    "name", ["timing-rank0.csv", "host-rank.csv", "hosts-rank0.csv", "host-rank0.csv.gz", "stacks-rank0.csv"]
)
def test_other_names_are_none_of_its_kind(name: str) -> None:
    assert HOST.parse(name) is None
