"""How well imported traces agree with a run that timed itself, and what importing a trace costs.

``make bench-import`` runs it: a training of two ranks is timed by our process group and traced by
torch.profiler at once, with a rank that is slow and without; then a trace is made larger by repeating its
steps, and imported by a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from timing_logger import read_timings
from timing_logger.analysis import stragglers, waits
from timing_logger.importing import import_kineto
from timing_logger.report import verdict_sentence

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "tests" / "torch_programs" / "profiled_ddp.py"
NEAR_MS = 0.2
_LIMIT_S = 400
_MB_OF_RUN = 200.0


class Cost(NamedTuple):
    """What it took to import a trace."""

    mb: float
    cpu_s: float
    wall_s: float
    peak_mb: float


def traced_run(folder: Path, slow_rank: int, ranks: int) -> None:
    """Run a training that is timed and traced at once."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run(
        [*command, str(PROGRAM), str(folder), str(slow_rank)], env=environment, check=True, timeout=_LIMIT_S,
        capture_output=True,
    )  # fmt: skip


def agreement(folder: Path) -> pd.Series[float]:
    """Return by how much each wait differs between the two, in ms."""
    found = []
    for name in ("timed", "imported"):
        rows = waits(read_timings(folder / name))
        rows = rows[(rows["operation"] == "ALLREDUCE") & rows["iteration"].notna()].sort_values("seq")
        found.append(rows.assign(place=rows.groupby(["rank", "iteration"]).cumcount()))
    pairs = found[0].merge(found[1], on=["rank", "iteration", "place"], validate="one_to_one")
    assert len(pairs) == len(found[0]) == len(found[1]), "other collectives were matched"
    return (pairs["wait_ms_x"] - pairs["wait_ms_y"]).abs()


def compared(folder: Path, slow_rank: int, ranks: int) -> str:
    """Return in words how the two agree on a run."""
    traced_run(folder, slow_rank, ranks)
    import_kineto(folder / "traces", folder / "imported")
    off_ms = agreement(folder)
    verdicts = [verdict_sentence(stragglers(read_timings(folder / name))) for name in ("timed", "imported")]
    return (
        f"{ranks} ranks, {'one slow' if slow_rank >= 0 else 'none slow'}: {len(off_ms)} waits, "
        f"{(off_ms <= NEAR_MS).mean():.0%} within {NEAR_MS} ms, median {off_ms.median():.3f} ms, mean "
        f"{off_ms.mean():.3f} ms, worst {off_ms.max():.1f} ms\n"
        f"  timed:    {verdicts[0]}\n  imported: {verdicts[1]}"
    )


def enlarged(trace: Path, mb: float, into: Path, rank: int = 0, ranks: int = 2) -> None:
    """Write a trace with the events of another again and again, each time later, until it has so many MB.

    It says that it is of ``rank`` in a run of ``ranks``.
    """
    content = json.loads(trace.read_text())
    content["distributedInfo"].update(rank=rank, world_size=ranks)
    events = [event for event in content.pop("traceEvents") if event["ph"] == "X" and event["cat"] != "Trace"]
    begin = min(event["ts"] for event in events)
    length = max(event["ts"] + event["dur"] for event in events) - begin + 1
    n_steps = sum(event["name"].startswith("ProfilerStep#") for event in events)
    with open(into, "w", encoding="utf-8") as file:
        file.write(json.dumps(content)[:-1] + ',\n  "traceEvents": [\n')
        written, times = 0, 0
        while written < mb * 1e6:
            for event in events:
                name = event["name"]
                if name.startswith("ProfilerStep#"):
                    name = f"ProfilerStep#{int(name[13:]) + times * n_steps}"
                text = json.dumps({**event, "name": name, "ts": event["ts"] + times * length}, indent=2)
                written += file.write(("  " if not written else ",\n  ") + text)
            times += 1
        file.write("\n  ]\n}\n")


def cost_of(traces: Path, output: Path) -> Cost:
    """Import a trace, or a folder of these as one run, in a process of its own; its children count, too."""
    program = (
        "import resource, sys, time; from timing_logger.importing import import_kineto; "
        "t = time.monotonic(); import_kineto(sys.argv[1], sys.argv[2]); wall_s = time.monotonic() - t; "
        "all = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]; "
        "print(wall_s, sum(one.ru_utime + one.ru_stime for one in all), sum(one.ru_maxrss for one in all))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(traces), str(output)], check=True, capture_output=True, text=True,
        timeout=_LIMIT_S,
    )  # fmt: skip
    wall_s, cpu_s, peak_kb = map(float, done.stdout.split())
    files = [traces] if traces.is_file() else [*traces.iterdir()]
    return Cost(sum(file.stat().st_size for file in files) / 1e6, cpu_s, wall_s, peak_kb * 1024 / 1e6)


def cost_of_run(made_from: Path, folder: Path, n_traces: int, mb: float) -> str:
    """Import large traces of as many ranks as one run, and return in words what each cost."""
    traces = folder / "traces of a run"
    traces.mkdir()
    files = sorted(made_from.glob("rank*.json"))
    for rank in range(n_traces):
        enlarged(files[rank % len(files)], mb, traces / f"rank{rank}.json", rank, n_traces)
    cost = cost_of(traces, folder / "out of a run")
    shutil.rmtree(traces)
    return (
        f"{n_traces} traces of {cost.mb / n_traces:.0f} MB as one run: {cost.cpu_s / n_traces:.1f} s of a "
        f"core and {cost.wall_s / n_traces:.1f} s by the clock for each ({cost.wall_s:.0f} s for all), "
        f"{cost.peak_mb:.0f} MB of memory; load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Print the agreement and the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, nargs="*", default=[200.0, 1000.0], help="sizes of traces")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--traces", type=int, default=8, help="how many are imported as one run; 0 for none")
    parser.add_argument("--only-run", action="store_true", help="only import those")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, slow_rank in (("slow", arguments.ranks - 1), ("healthy", -1)):
            if name == "slow" or not arguments.only_run:
                (folder / name).mkdir()
                print(compared(folder / name, slow_rank, arguments.ranks), flush=True)
        if arguments.traces:
            print(cost_of_run(folder / "slow" / "traces", folder, arguments.traces, _MB_OF_RUN), flush=True)
        for mb in [] if arguments.only_run else arguments.mb:
            trace = folder / "rank0.json"
            enlarged(folder / "slow" / "traces" / "rank0.json", mb, trace)
            cost = cost_of(trace, folder / f"out{mb:g}")
            print(
                f"a trace of {cost.mb:.0f} MB: {cost.cpu_s:.1f} s of a core ({cost.wall_s:.1f} s by the "
                f"clock), {cost.peak_mb:.0f} MB of memory",
                flush=True,
            )


if __name__ == "__main__":
    main()
