"""A file that has its size goes on in a next part, and no sooner."""

from __future__ import annotations

from pathlib import Path

from timing_logger.sinks._file_in_parts import FileInParts, is_taken


def parts(folder: Path, max_bytes: int, *writes: bytes) -> list[bytes]:
    """Return what is in each part of a file after these writes."""
    file = FileInParts(
        folder, lambda incarnation, part: f"{incarnation}-{part}", argument="folder", taken=is_taken,
        max_bytes=max_bytes,
    )  # fmt: skip
    for data in writes:
        file.append(data, 1)
    file.close()
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def test_a_file_that_has_its_size_is_followed_by_the_next(tmp_path: Path) -> None:
    assert parts(tmp_path, 5, b"one,\n", b"two,\n", b"3\n") == [b"one,\n", b"two,\n", b"3\n"]


def test_a_file_that_lacks_a_byte_takes_one_more_write_as_a_whole(tmp_path: Path) -> None:
    assert parts(tmp_path, 6, b"one,\n", b"two,\n", b"3\n") == [b"one,\ntwo,\n", b"3\n"]
