"""What is compressed is decompressed as it comes, and what is damaged is said once."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from timing_logger.importing import unpacking
from timing_logger.importing.unpacking import (
    DamagedError,
    Unpacker,
    is_compressed,
    is_gzip,
    needs_a_package,
    unpacker_of,
)

PATH = Path("steps.jsonl.gz")
ONE, OTHER = gzip.compress(b"a line\n"), gzip.compress(b"another\n")


def unpacked(unpacker: Unpacker, stored: bytes) -> bytes:
    return b"".join(unpacker.blocks_of(stored))


@pytest.mark.parametrize(
    ("head", "gz", "compressed"),
    [
        (b"\x1f\x8b\x08\x00", True, True), (b"\x28\xb5\x2f\xfd", False, True),
        (b"\x1f\x8c\x08\x00", False, False), (b"\x28\xb5\x2f", False, False),
        (b"", False, False), (b"text", False, False),
    ],
)  # fmt: skip
def test_the_first_bytes_tell_what_is_compressed(head: bytes, gz: bool, compressed: bool) -> None:
    assert (is_gzip(head), is_compressed(head)) == (gz, compressed)


def test_what_is_not_compressed_has_no_unpacker() -> None:
    assert unpacker_of(b"text", PATH) is None
    assert unpacker_of(ONE[:4], PATH) is not None


@pytest.mark.parametrize("n_bytes", [1, 5, 1000])
def test_members_follow_each_other_with_or_without_padding(n_bytes: int) -> None:
    stored = ONE + OTHER + b"\0" * 7 + ONE + b"\0" * 3
    unpacker = Unpacker(stored[:4], PATH)
    blocks = [unpacked(unpacker, stored[at : at + n_bytes]) for at in range(0, len(stored), n_bytes)]
    assert b"".join(blocks) == b"a line\nanother\na line\n"
    assert not unpacker.is_cut


def test_it_is_cut_within_a_member_and_not_between_two() -> None:
    unpacker = Unpacker(ONE[:4], PATH)
    assert not unpacker.is_cut
    list(unpacker.blocks_of(ONE[:-1]))
    assert unpacker.is_cut
    list(unpacker.blocks_of(ONE[-1:]))
    assert not unpacker.is_cut
    list(unpacker.blocks_of(OTHER[:1]))
    assert unpacker.is_cut


def test_what_makes_nothing_yet_is_an_empty_block() -> None:
    unpacker = Unpacker(ONE[:4], PATH)
    assert list(unpacker.blocks_of(ONE[:4])) == [b""]
    assert list(unpacker.blocks_of(ONE[4:])) == [b"a line\n"]


def test_damage_is_said_once_and_what_was_before_it_is_read_but_nothing_behind_it() -> None:
    unpacker = Unpacker(ONE[:4], PATH)
    blocks: Iterator[bytes] = unpacker.blocks_of(ONE + b"no member")
    assert next(blocks) == b"a line\n"
    with pytest.raises(DamagedError, match="incorrect header check") as caught:
        next(blocks)
    assert isinstance(caught.value.__cause__, zlib.error)
    assert not unpacker.is_cut
    assert unpacked(unpacker, OTHER) == b""


def test_content_comes_in_blocks_once_there_is_enough_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_BLOCK_BYTES", 14)
    unpacker = Unpacker(ONE[:4], PATH)
    assert list(unpacker.blocks_of(ONE * 5)) == [b"a line\n" * 2, b"a line\n" * 2, b"a line\n"]


def test_what_repeats_far_behind_is_decompressed() -> None:
    content = random.Random(7).randbytes(30_000) * 2
    stored = gzip.compress(content)
    assert len(stored) < len(content) * 2 / 3
    assert unpacked(Unpacker(stored[:4], PATH), stored) == content


def test_memory_that_lacks_is_no_damage() -> None:
    class Full:
        eof, unused_data = False, b""

        def decompress(self, data: bytes, /) -> bytes:
            raise MemoryError

    unpacker = Unpacker(ONE[:4], PATH)
    unpacker._make = Full
    with pytest.raises(MemoryError):
        unpacked(unpacker, ONE)


def test_who_can_not_read_zstandard_is_told_what_to_do() -> None:
    said = str(needs_a_package(Path("steps.zst")))
    assert "'steps.zst' is compressed with Zstandard" in said
    assert said.endswith("pip install 'timing_logger[import]'. Or decompress it: unzstd.")
