"""How large the digests of many ranks are, and what it takes to judge them: bytes, time of a core, memory."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from live_runs.hosts import Host, hosts_of
from live_runs.job import Job, Slow, played
from live_runs.judging import OWN
from timing_logger.live.looking import MOST_BYTES_PER_S
from timing_logger.live.packed import packed_within

RANKS = (8, 64, 512, 4096, 10_000)
QUICK_RANKS = (8, 64, 512)
STEP_S, LOOKS_EVERY_S, LOOKS = 0.3, 5.0, 7
SLOW_RANK, SLOWER = 3, 0.3
TARGETS = {"bytes": 20e6, "judged_s": 5.0, "peak_bytes": 1e9}
"""To reach with 10,000 ranks: bytes in 10 s, seconds of a core for one look, and memory."""

_LIMIT_S = 1800.0


class Size(NamedTuple):
    """What a job of so many ranks comes to.

    Attributes:
        n_ranks: the number of ranks.
        bytes_per_10_s: of the digests of all hosts but that which judges.
        unpacked_s: the time of a core for reading those of one look, in s.
        judged_s: the same with the verdict on them.
        peak_bytes: the most memory that the process had which judges.
        n_rows: the number of rows that are judged.
        found: whether exactly the slow rank was named.
    """

    n_ranks: int
    bytes_per_10_s: float
    unpacked_s: float
    judged_s: float
    peak_bytes: float
    n_rows: int
    found: bool


def sizes(ranks: Sequence[int]) -> Iterator[Size]:
    """Yield what jobs of so many ranks come to."""
    for n_ranks in ranks:
        with tempfile.TemporaryDirectory() as folder:
            n_bytes = _write(Path(folder), n_ranks)
            told = _judged(Path(folder))
        yield Size(
            n_ranks, n_bytes / (LOOKS * LOOKS_EVERY_S / 10), told["unpacked_s"], told["judged_s"],
            told["peak_bytes"], told["rows"], (told["verdict"], told["ranks"]) == ("rank", [SLOW_RANK]),
        )  # fmt: skip


def _write(folder: Path, n_ranks: int) -> int:
    """Write the digests of all looks, a folder for each; return how many bytes they have."""
    length_s = LOOKS * LOOKS_EVERY_S
    run = played(Job(n_ranks, STEP_S, 1.3 * length_s, 0, Slow(SLOW_RANK, SLOWER, 0.4 * length_s)))
    hosts = [Host(run, f"node{i}", ranks, 1, 0.0) for i, ranks in enumerate(hosts_of(n_ranks))]
    n_bytes = 0
    for look in range(LOOKS):
        at_s, made = LOOKS_EVERY_S * (look + 1), folder / str(look)
        made.mkdir()
        for i, host in enumerate(hosts):
            digest = host.digest(at_s, with_last=i == 0)
            if i == 0:
                (made / OWN).write_bytes(pickle.dumps(digest))
                continue
            data = packed_within(digest, int(MOST_BYTES_PER_S * LOOKS_EVERY_S * len(digest.processes)))
            (made / f"{host.name}.digest").write_bytes(data)
            n_bytes += len(data)
    return n_bytes


def _judged(folder: Path) -> dict[str, float]:
    path = f"{Path(__file__).parents[2]}{os.pathsep}{Path(__file__).parents[1]}"
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "live_runs.judging", str(folder)]
    done = subprocess.run(
        command, env=environment, check=True, timeout=_LIMIT_S, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(done.stdout))


def lines(found: Sequence[Size]) -> Iterator[str]:
    """Yield a table of sizes, and what the targets for 10,000 ranks come to."""
    yield "| ranks | bytes in 10 s | per rank | rows judged | reading, s | judging, s | memory, MB | named |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in found:
        per_rank = one.bytes_per_10_s / one.n_ranks
        yield (
            f"| {one.n_ranks:,} | {one.bytes_per_10_s:,.0f} | {per_rank:,.0f} | {one.n_rows:,} "
            f"| {one.unpacked_s:.2f} | {one.judged_s:.2f} | {one.peak_bytes / 1e6:,.0f} "
            f"| {'yes' if one.found else '**no**'} |"
        )
    largest = found[-1]
    if largest.n_ranks == RANKS[-1]:
        yield ""
        reached = (largest.bytes_per_10_s, largest.judged_s, largest.peak_bytes)
        words = ("20 MB in 10 s", "5 s of a core for a look", "1 GB of memory")
        for word, target, figure in zip(words, TARGETS.values(), reached, strict=True):
            yield f"- to reach, {word}: {'met' if figure <= target else '**missed**'}"


def draw(path: Path, found: Sequence[Size]) -> None:
    """Draw how time, bytes and memory grow with the number of ranks."""
    import matplotlib.pyplot as plt

    ranks = [one.n_ranks for one in found]
    curves = {
        "time of a core for a look, s": ([one.judged_s for one in found], TARGETS["judged_s"]),
        "digests in 10 s, MB": (
            [one.bytes_per_10_s / 1e6 or float("nan") for one in found],
            TARGETS["bytes"] / 1e6,
        ),
        "memory of the monitor, MB": ([one.peak_bytes / 1e6 for one in found], TARGETS["peak_bytes"] / 1e6),
    }
    figure, places = plt.subplots(1, len(curves), figsize=(9, 2.8), layout="constrained")
    for axes, (name, (values, target)) in zip(places, curves.items(), strict=True):
        axes.plot(ranks, values, "o-", color="#2f6fb0", markersize=4)
        axes.axhline(target, color="#b8b8b8", linestyle="--")
        axes.set(xscale="log", yscale="log", title=name, xlabel="ranks")
        axes.title.set_size("medium")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
