"""Whether the native core was built from the sources beside it is told by their checksum."""

from __future__ import annotations

from pathlib import Path

import pytest

from timing_logger.process import which_core
from timing_logger.process.which_core import checksum_of_sources, header


@pytest.fixture
def native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a native core with sources, in a package with sources in C of its own."""
    folder = tmp_path / "native"
    for part in (folder / "csrc", tmp_path / "csrc"):
        part.mkdir(parents=True)
    for name in ("core.pyx", "recorder.pxi", "csrc/ring.c", "csrc/ring.h", "../csrc/shared.h"):
        (folder / name).write_text(name)
    monkeypatch.setattr(which_core, "_NATIVE", folder)
    monkeypatch.setattr(which_core, "_PACKAGE", tmp_path)
    return folder


def test_without_sources_there_is_nothing_to_compare(native: Path) -> None:
    (native / "core.pyx").unlink()
    assert checksum_of_sources() is None


@pytest.mark.parametrize(
    "name", ["core.pyx", "recorder.pxi", "csrc/ring.c", "csrc/ring.h", "../csrc/shared.h"]
)
def test_each_source_counts_by_its_content_and_its_name(native: Path, name: str) -> None:
    before = checksum_of_sources()
    (native / name).write_text("changed")
    changed = checksum_of_sources()
    assert changed != before
    if name != "core.pyx":
        (native / name).rename((native / name).with_name("renamed" + Path(name).suffix))
        assert checksum_of_sources() not in (before, changed)


@pytest.mark.parametrize(
    "name", ["columns.pxi", "core.c", "csrc/columns.h", "csrc/built_from.h", "notes.txt", "csrc/notes.txt"]
)
def test_what_the_build_makes_and_what_is_no_source_does_not_count(native: Path, name: str) -> None:
    before = checksum_of_sources()
    (native / name).write_text("made")
    assert checksum_of_sources() == before


@pytest.mark.usefixtures("native")
def test_the_header_states_the_checksum() -> None:
    assert header().startswith(f"#define BUILT_FROM {checksum_of_sources()}u ")
    assert header().endswith("\n")
