"""Both cores read files of the kernel whole, and take what cannot be read for empty."""

from __future__ import annotations

import os
from pathlib import Path

from both_cores import BuiltCore

from timing_logger.recording.cores.python.small_files import MOST_BYTES


def test_each_file_has_its_content_and_one_that_cannot_be_read_has_none(
    each_core: BuiltCore, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"first\0line\n")
    (tmp_path / "empty").touch()
    paths = [str(tmp_path / name) for name in ("a", "gone", "empty", "a")]
    assert each_core.classes.read_files(paths) == [b"first\0line\n", b"", b"", b"first\0line\n"]
    assert each_core.classes.read_files([str(tmp_path)]) == [b""]
    assert each_core.classes.read_files([]) == []


def test_a_file_that_the_kernel_gives_piece_by_piece_is_read_to_its_end(each_core: BuiltCore) -> None:
    path = "/proc/self/maps"
    (text,) = each_core.classes.read_files([path])
    assert len(text) > os.sysconf("SC_PAGE_SIZE")
    assert text.splitlines()[-1] == Path(path).read_bytes().splitlines()[-1]


def test_what_is_too_much_is_cut(each_core: BuiltCore, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (MOST_BYTES - 10))
    large, rest = each_core.classes.read_files([str(tmp_path / "large")] * 2)
    assert (len(large), len(rest)) == (MOST_BYTES - 10, 10)


def test_names_that_are_no_text_can_be_read(each_core: BuiltCore, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff"
    Path(os.fsdecode(path)).write_bytes(b"here")
    assert each_core.classes.read_files([os.fsdecode(path)]) == [b"here"]
