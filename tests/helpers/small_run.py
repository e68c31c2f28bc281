"""Makes a small run on disk, always the same: four ranks, of which rank 2 is slow from iteration 10 on.

Its report, as text, is in golden/report.txt. To write that file again after an intended change:
``PYTHONPATH=.:tests/helpers python tests/helpers/small_run.py``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from places import TESTS
from timing_files import EPOCH_S, record, write_timing_file

from timing_logger.recording.sidecar_writer import replace_sidecar
from timing_logger.schema.record import NS_PER_S, Record
from timing_logger.schema.sidecar import ClockAnchor, Counters, RunInfo
from timing_logger.schema.timing_files import sidecar_path

N_RANKS, N_ITERATIONS = 4, 40
TRANSFER_MS = 1.5
HOSTILE = "</script><b>layer</b>"
"""A layer whose name is markup."""

GOLDEN = TESTS / "golden" / "report.txt"


def work_ms(rank: int, iteration: int) -> float:
    """Return the time of the rank's backward pass in ms: 10 to 10.4, and twice that where it is slow."""
    usual = 10 + 0.1 * ((iteration * 7 + rank * 3) % 5)
    return 2 * usual if rank == 2 and iteration >= 10 else usual


def waiting_ms(rank: int, iteration: int) -> float:
    """Return how long the rank waits for the last one in the iteration's all-reduce, in ms."""
    return max(work_ms(other, iteration) for other in range(N_RANKS)) - work_ms(rank, iteration)


def write_small_run(folder: Path) -> Path:
    """Write the timing files and sidecars, and return the folder."""
    for rank in range(N_RANKS):
        records = list(_records(rank))
        path = write_timing_file(folder, rank, records)
        if rank == 3:
            path.write_bytes(path.read_bytes() + b"2026-02-06T14:30:4")
        _write_sidecar(path, rank, len(records))
    return folder


def _records(rank: int) -> Iterator[Record]:
    now_s = 1.0
    for iteration in range(N_ITERATIONS):
        common = {"iteration": iteration, "epoch": iteration // 20}
        own_ms = work_ms(rank, iteration)
        yield record("BACKWARD", now_s, own_ms, **common, phase="train", layer_name="", group="",
                     message_size_bytes=None, group_size=None)  # fmt: skip
        inside_ms = waiting_ms(rank, iteration) + TRANSFER_MS
        yield record("ALLREDUCE", now_s + own_ms / 1e3, inside_ms, **common, layer_name=HOSTILE,
                     message_size_bytes=1_000_000, seq=iteration)  # fmt: skip
        now_s += (own_ms + inside_ms) / 1e3


def _write_sidecar(path: Path, rank: int, n_rows: int) -> None:
    lost = 2 if rank == 1 else 0
    info = RunInfo(
        file=path.name, rank=rank, incarnation=1, world_size=N_RANKS, labels={}, options={},
        host="node0", boot_id="boot0", pid=1, started_unix_ns=EPOCH_S * NS_PER_S,
        updated_unix_ns=(EPOCH_S + 60) * NS_PER_S, closed=True,
        clock_anchors=[ClockAnchor(0, EPOCH_S * NS_PER_S, 80)], versions={}, logger_cpu_ns=400_000,
        counters=Counters(n_rows + lost, n_rows, lost, 0), written_bytes=path.stat().st_size,
    )  # fmt: skip
    replace_sidecar(sidecar_path(path), info.to_json())


def visible_text(page: str) -> str:
    """Return the visible text of ``page``, one line per piece; white space is collapsed as in a browser."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return "\n".join(filter(None, (" ".join(piece.split()) for piece in reader.pieces))) + "\n"


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.unseen = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.unseen += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.unseen -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self.unseen:
            self.pieces.append(data)


def report_of(folder: Path) -> str:
    """Return the HTML report of the run in ``folder``."""
    import warnings

    from timing_logger.reading import read_timings
    from timing_logger.report.html import report_html

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the unfinished line
        return report_html(read_timings(folder))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        GOLDEN.write_text(visible_text(report_of(write_small_run(Path(made) / "logs" / "small"))))
