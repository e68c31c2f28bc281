"""Both cores read files of the kernel whole, and take what cannot be read for empty."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from both_cores import BuiltCore

from timing_logger.recording.cores.python.small_files import MOST_BYTES


def test_each_file_has_its_content_and_one_that_cannot_be_read_has_none(
    each_core: BuiltCore, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"first\0line\n")
    (tmp_path / "empty").touch()
    paths = [str(tmp_path / name) for name in ("a", "gone", "empty", "a")]
    assert each_core.classes.SmallFiles().read(paths) == [b"first\0line\n", b"", b"", b"first\0line\n"]
    assert each_core.classes.SmallFiles().read([str(tmp_path)]) == [b""]
    assert each_core.classes.SmallFiles().read([]) == []


@contextmanager
def other_program() -> Iterator[int]:
    """Have a Python wait that has a hundred pieces of memory; yield its number."""
    program = "import mmap; kept = [mmap.mmap(-1, 1) for _ in range(100)]; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.communicate(b"\n")


def test_a_file_that_the_kernel_gives_piece_by_piece_is_read_to_its_end(each_core: BuiltCore) -> None:
    with other_program() as pid:  # those of this process may be more than a small file has
        path = f"/proc/{pid}/maps"
        (text,) = each_core.classes.SmallFiles().read([path])
        assert len(text) > os.sysconf("SC_PAGE_SIZE")
        assert text.splitlines()[-1] == Path(path).read_bytes().splitlines()[-1]


def test_what_is_too_much_is_cut(each_core: BuiltCore, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (MOST_BYTES - 10))
    large, rest = each_core.classes.SmallFiles().read([str(tmp_path / "large")] * 2)
    assert (len(large), len(rest)) == (MOST_BYTES - 10, 10)


def test_names_that_are_no_text_can_be_read(each_core: BuiltCore, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff"
    Path(os.fsdecode(path)).write_bytes(b"here")
    assert each_core.classes.SmallFiles().read([os.fsdecode(path)]) == [b"here"]


def test_each_reading_has_what_is_in_the_file_then(each_core: BuiltCore, tmp_path: Path) -> None:
    path, files = tmp_path / "file", each_core.classes.SmallFiles()
    assert files.read([str(path)]) == [b""]
    path.write_bytes(b"first")
    assert files.read([str(path)]) == [b"first"]
    path.write_bytes(b"next")
    assert files.read([str(path)]) == [b"next"]
    files.close()


def test_a_descriptor_that_other_code_closed_is_none_of_ours_any_more(
    each_core: BuiltCore, tmp_path: Path
) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).write_text(name)
    files, before = each_core.classes.SmallFiles(), open_descriptors()
    assert files.read([str(tmp_path / "ours")]) == [b"ours"]
    for descriptor in open_descriptors() - before:
        os.close(descriptor)
    theirs = os.open(tmp_path / "theirs", os.O_RDONLY)  # has the number that ours had
    assert files.read([str(tmp_path / "ours")]) == [b"ours"]
    files.close()
    assert os.read(theirs, 10) == b"theirs"
    os.close(theirs)
    assert open_descriptors() == before


def test_what_is_not_read_any_more_is_closed(each_core: BuiltCore, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files, before = each_core.classes.SmallFiles(), open_descriptors()
    files.read([str(tmp_path / "file")])
    files.read([])
    assert open_descriptors() == before


def open_descriptors() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:  # that of the listing
            continue
        found.add(int(name))
    return found
