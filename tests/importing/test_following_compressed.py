"""Compressed sources that grow are followed as far as they can be read; what is compressed is read once."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from growing_sources import Act, Followed, added, followed, pieces, rows_by_rank
from inspector_dumps import FIRST_US, collective, records_of
from inspector_dumps import line as line_of
from seeds import seeds
from slow import slow
from step_logs import step_records

from timing_logger import read_timings
from timing_logger.errors import ConfigurationError
from timing_logger.importing import (
    StepColumns,
    follow_inspector,
    follow_steps,
    import_inspector,
    import_steps,
)
from timing_logger.importing.unpacking import Unpacker

COLUMNS = StepColumns(seconds="perf.step_s", phases=["data", "forward"], time="ended")
ONE_RANK = StepColumns(seconds="s")
CUT = {"the end of a compressed file that is cut or damaged": 1}

Compress = Callable[[bytes], bytes]


def zstandard(content: bytes) -> bytes:
    packed: bytes = pytest.importorskip("zstandard").compress(content)
    return packed


COMPRESSED: dict[str, Compress] = {"gz": gzip.compress, "zst": zstandard}
ONE_AND_ALL = ["gz", slow("zst", "what is compressed is unpacked in both ways by other tests")]


def follow(source: Path, *acts: Act, columns: StepColumns = ONE_RANK, stops: bool = False) -> Followed:
    """Follow a source into ``out`` beside it."""
    return followed(partial(follow_steps, source, source.parent / "out", columns), *acts, stops=stops)


def line(step: int) -> bytes:
    return b'{"rank": 0, "step": %d, "s": 0.5}\n' % step


def lines(first: int, last: int) -> bytes:
    return b"".join(map(line, range(first, last)))


def steps_in(folder: Path) -> list[int]:
    return sorted(read_timings(folder).iteration.tolist())


def in_members(drawn: random.Random, content: bytes, compress: Compress) -> bytes:
    """Return a content compressed in members, each cut anywhere; those of gzip may be padded."""
    cuts = sorted({0, len(content), *(drawn.randrange(len(content)) for _ in range(drawn.randrange(6)))})
    padding = b"\0" * 600 if compress is gzip.compress and drawn.random() < 0.3 else b""
    members = [compress(content[begin:end]) for begin, end in pairwise(cuts)]
    return padding.join([*members, b""])


def compressed_logs(drawn: random.Random, folder: Path, ending: str) -> dict[Path, bytes]:
    """Return logs of several ranks, of which one may be cut anywhere."""
    files = {}
    for rank in range(3):
        records = [json.dumps(one).encode() for one in step_records() if one["rank"] == rank]
        records.insert(drawn.randrange(len(records)), b"no JSON")
        content = b"\n".join(records) + drawn.choice([b"", b"\n"])
        files[folder / f"{rank}.jsonl.{ending}"] = in_members(drawn, content, COMPRESSED[ending])
    cut = drawn.choice(sorted(files))
    files[cut] = files[cut][: drawn.randrange(100, len(files[cut]) + 1)]
    return files


@pytest.mark.parametrize("ending", ONE_AND_ALL)
@pytest.mark.parametrize("seed", seeds(12))
def test_whatever_is_written_when_the_rows_are_those_of_one_import(
    tmp_path: Path, seed: int, ending: str
) -> None:
    drawn, folder = random.Random(seed), tmp_path / "logs"
    folder.mkdir()
    files = compressed_logs(drawn, folder, ending)
    made = follow(folder, *pieces(drawn, files), columns=COLUMNS).made
    whole = import_steps(folder, tmp_path / "whole", COLUMNS)
    assert (made.ranks, made.rows, made.left_out) == (whole.ranks, whole.rows, whole.left_out)
    same_rows(tmp_path, ["iteration", "epoch", "work"])


def same_rows(folder: Path, columns: list[str]) -> None:
    pd.testing.assert_frame_equal(
        *(rows_by_rank(folder / name, by_instants=True, columns=columns) for name in ("out", "whole"))
    )


def as_lines(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.mark.slow("that what was compressed is read again is quick, of a file that is followed at first")
@pytest.mark.parametrize("ending", COMPRESSED)
def test_compressed_dumps_are_read_again_where_ranks_get_other_names(tmp_path: Path, ending: str) -> None:
    folder, drawn = tmp_path / "dumps", random.Random(1)
    folder.mkdir()
    files = {
        folder / f"{rank}.log.{ending}": in_members(drawn, as_lines(records_of(rank, 1)), COMPRESSED[ending])
        for rank in range(4)
    }
    made = followed(partial(follow_inspector, folder, tmp_path / "out"), *pieces(drawn, files)).made
    assert made.rows == import_inspector(folder, tmp_path / "whole").rows
    same_rows(tmp_path, ["group", "seq", "message_size_bytes"])


@pytest.mark.parametrize("stops", [False, True])
def test_members_may_be_padded_and_the_padding_cut_anywhere(tmp_path: Path, *, stops: bool) -> None:
    log = tmp_path / "a.jsonl.gz"
    log.write_bytes(gzip.compress(lines(0, 3)) + bytes(20_000))
    more = added(log, bytes(20_000) + gzip.compress(lines(3, 5)) + bytes(7))
    assert follow(log, more, stops=stops).made[2:4] == (5, {})


def test_what_a_writer_flushed_is_there_before_it_ends_the_member(tmp_path: Path) -> None:
    member, log, seen = zlib.compressobj(wbits=31), tmp_path / "a.jsonl.gz", []
    begun = member.compress(line(1) + line(2)) + member.flush(zlib.Z_SYNC_FLUSH)
    rest = member.compress(line(3)) + member.flush()
    look = partial(lambda: seen.append(steps_in(tmp_path / "out")))
    follow(log, added(log, begun), look, added(log, rest), look)
    assert seen == [[1, 2], [1, 2, 3]]


def test_an_end_that_does_not_come_is_counted_and_a_cut_line_is_no_row(tmp_path: Path) -> None:
    log, member = tmp_path / "a.jsonl.gz", zlib.compressobj(wbits=31)
    log.write_bytes(gzip.compress(line(1)) + member.compress(b'{"rank": 0, "step": 2, "s": 0.5') + b"")
    with log.open("ab") as file:
        file.write(member.flush(zlib.Z_SYNC_FLUSH))
    assert follow(log).made[2:4] == (1, CUT)


@pytest.mark.parametrize("ending", COMPRESSED)
def test_a_file_that_is_damaged_is_read_up_to_there_and_counted_once(tmp_path: Path, ending: str) -> None:
    log, compress = tmp_path / f"a.jsonl.{ending}", COMPRESSED[ending]
    log.write_bytes(compress(lines(0, 3)))
    more = added(log, compress(lines(3, 5)))
    made = follow(log, added(log, b"no member of anything"), more).made
    assert (made.rows, made.left_out) == (3, CUT)


# -- files that are compressed while they are followed ------------------------------------------------------


def compress_it(path: Path, ending: str) -> None:
    """Do as gzip and zstd do: write another file beside it, and remove it."""
    path.with_name(f"{path.name}.{ending}").write_bytes(COMPRESSED[ending](path.read_bytes()))
    path.unlink()


@pytest.mark.parametrize("ending", ONE_AND_ALL)
@pytest.mark.parametrize(
    "how", ["at once", "after a look", "renamed before", "bit by bit", "with lines unread"]
)
def test_of_a_log_that_is_rotated_and_compressed_every_line_is_read_once(
    tmp_path: Path, how: str, ending: str
) -> None:
    log, rotated = tmp_path / "a.jsonl", tmp_path / "a.jsonl.1"
    packed = tmp_path / f"a.jsonl.1.{ending}"
    log.write_bytes(lines(0, 200))

    def rotate() -> None:
        log.rename(rotated)
        log.write_bytes(lines(200, 230))

    def rotate_and_compress() -> None:
        added(log, lines(500, 520) if how == "with lines unread" else b"")()
        rotate()
        compress_it(rotated, ending)

    content = COMPRESSED[ending](lines(0, 200))
    acts: dict[str, list[Act]] = {
        "at once": [rotate_and_compress],
        "with lines unread": [rotate_and_compress],
        "after a look": [rotate, lambda: compress_it(rotated, ending)],
        "renamed before": [lambda: log.rename(rotated), lambda: compress_it(rotated, ending)],
        "bit by bit": [
            rotate, packed.touch,
            *(added(packed, content[at : at + 40]) for at in range(0, len(content), 40)), rotated.unlink,
        ],
    }  # fmt: skip
    found = follow(tmp_path / "a.jsonl*", *acts[how], lambda: None)
    further = {"renamed before": [], "with lines unread": [*range(200, 230), *range(500, 520)]}
    assert steps_in(tmp_path / "out") == [*range(200), *further.get(how, range(200, 230))]
    assert (found.said, found.made.left_out) == ([], {})


@pytest.mark.parametrize("begun", [False, True])
def test_what_was_compressed_is_read_again_where_ranks_get_other_names(
    tmp_path: Path, *, begun: bool
) -> None:
    folder, packed = tmp_path / "dumps", tmp_path / "dumps" / "3.log.gz"
    folder.mkdir()
    alone = line_of_pair(3)
    content = gzip.compress(as_lines([alone]))

    def compress() -> None:
        (folder / "3.log").unlink()
        packed.write_bytes(content[:20] if begun else content)

    acts = [
        added(folder / "3.log", as_lines([alone])), compress,
        added(folder / "0.log", as_lines(records_of(0, None))),
        added(packed, content[20:] if begun else b""),
        added(folder / "other.log", as_lines(records_of(3, None))),
    ]  # fmt: skip
    made = followed(partial(follow_inspector, folder, tmp_path / "out"), *acts).made
    whole = import_inspector(folder, tmp_path / "whole")
    assert made._replace(folder=whole.folder) == whole
    same_rows(tmp_path, ["group", "seq"])


def line_of_pair(rank: int) -> dict[str, Any]:
    """Return an operation in a communicator of two ranks, in which a rank has another number."""
    found = line_of(rank % 2, collective(0, 900, FIRST_US), pid=1000 + rank, id="0xab", n_ranks=2)
    found["metadata"]["hostname"] = f"node{rank // 2}"
    return found


def test_a_compressed_copy_beside_a_file_that_is_followed_is_not_read(tmp_path: Path) -> None:
    log, copy = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    log.write_bytes(lines(0, 100))
    keep = partial(copy.write_bytes, gzip.compress(lines(0, 100)))
    follow(tmp_path / "a.jsonl*", keep, added(log, lines(100, 110)))
    assert steps_in(tmp_path / "out") == [*range(110)]


def test_what_is_compressed_beside_a_file_with_another_content_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(50, 60))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines(0, 50)))
    follow(tmp_path / "a.jsonl*")
    assert steps_in(tmp_path / "out") == [*range(60)]


@pytest.mark.parametrize("ending", ONE_AND_ALL)
@pytest.mark.parametrize("how", ["emptied", "half written", "replaced", "replaced by half", "replaced twice"])
def test_of_a_compressed_table_that_is_saved_again_only_further_lines_are_read(
    tmp_path: Path, how: str, ending: str
) -> None:
    log, other = tmp_path / f"train.csv.{ending}", tmp_path / "draft"
    table = [b"rank,step,s\n", *(b"0,%d,0.5\n" % step for step in range(200))]

    def packed(n_lines: int) -> bytes:
        return COMPRESSED[ending](b"".join(table[:n_lines]))

    def replace(content: bytes) -> None:
        other.write_bytes(content)
        other.replace(log)

    whole = packed(len(table))
    acts: dict[str, list[Act]] = {
        "emptied": [lambda: log.write_bytes(b""), lambda: log.write_bytes(whole)],
        "half written": [lambda: log.write_bytes(whole[:99]), added(log, whole[99:])],
        "replaced": [lambda: replace(whole)],
        "replaced by half": [lambda: replace(whole[:99]), added(log, whole[99:])],
        "replaced twice": [lambda: replace(packed(70)), lambda: replace(packed(160)), lambda: replace(whole)],
    }
    log.write_bytes(packed(150))
    found = follow(log, *acts[how])
    assert steps_in(tmp_path / "out") == [*range(200)]
    assert (found.said, found.made.left_out) == ([], {})


# -- limits -------------------------------------------------------------------------------------------------


def test_a_member_that_is_far_larger_than_it_is_stored_is_unpacked_in_blocks(tmp_path: Path) -> None:
    stored = gzip.compress(bytes(3 * 2**24), compresslevel=1)
    blocks = [len(block) for block in Unpacker(stored[:4], tmp_path).blocks_of(stored)]
    assert (sum(blocks), max(blocks) < 2**25) == (3 * 2**24, True)


def test_without_a_package_for_zstandard_it_is_refused_at_first_and_left_out_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, other = tmp_path / "b.jsonl.zst", tmp_path / "a.jsonl"
    packed = zstandard(line(1))
    for module in ("zstandard", "compression", "compression.zstd"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    log.write_bytes(packed)
    with pytest.raises(ConfigurationError, match="needs a package"):
        follow(log)
    log.unlink()
    other.write_bytes(line(2))
    found = follow(tmp_path / "*.jsonl*", added(log, packed))
    assert (found.made.rows, ["is left out" in one for one in found.said]) == (1, [True])
