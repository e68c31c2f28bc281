"""Makes a run's files with something wrong in them, and runs all commands on them."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from timing_files import record, write_sidecar, write_timing_file

from timing_logger.cli import main
from timing_logger.schema.sidecar import ClockAnchor, ClockOffset, DeviceAnchor, DeviceClockInfo
from timing_logger.schema.timing_files import sidecar_path

POISON = (
    None, True, -1, 0, 2**31, 2**63, -(2**63) - 1, 10**40, 1.5, float("nan"), float("inf"), "", "x", "1",
    "\ud800\u202e\x1b[31m", [], {}, [1], [[]], [None], {"a": 1}, {"x": {"y": [None]}}, [{"offset_ns": "x"}],
)  # fmt: skip
"""Values to put where another type, or another size, is expected."""

COMMANDS = (
    "summary", "summary --json", "summary --by operation,rank", "hang", "hang --json", "stragglers",
    "stragglers --json", "waits", "bandwidth", "overlap", "compression", "report -o {out}.html",
    "trace -o {out}.trace.json", "convert --to csv -o {out}.csv", "watch --once",
)  # fmt: skip


FEW_COMMANDS = (
    "hang", "report -o {out}.html", "trace -o {out}.trace.json",
    "convert --to csv -o {out}.csv", "watch --once",
)  # fmt: skip
"""Some of them: what the others work out is in the report."""


class Said(NamedTuple):
    """The result of a command: its exit code, standard output, and standard error."""

    code: int
    out: str
    err: str


def write_run(folder: Path, n_steps: int = 6, **fields: Any) -> list[Path]:
    """Write files of two ranks that reduce, send and receive, with a value in every field of the sidecars.

    Args:
        folder: where the files go.
        n_steps: the number of steps.
        fields: columns with other values than usual, or with functions of the step.

    Returns:
        The timing files.
    """
    files = []
    for rank in range(2):
        rows = [row for step in range(n_steps) for row in _step(rank, step, fields)]
        path = write_timing_file(folder, rank, rows)
        write_sidecar(path)
        change_sidecar(path, lambda content, rank=rank: content.update(_full(rank)))
        files.append(path)
    return files


def _step(rank: int, step: int, fields: dict[str, Any]) -> Iterator[Any]:
    start_s = 1.0 + 0.01 * step
    whole = {"iteration": step % 3, "epoch": step // 3, "group_size": 2, "seq": step}
    changed = {name: value(step) if callable(value) else value for name, value in fields.items()}
    of_message = {**whole, "peer": 1 - rank, **changed}
    yield record("FORWARD", start_s, 2.0, **{**whole, "group_size": None, "seq": None, **changed})
    yield record("ALLREDUCE", start_s + 0.002, 3.0 + rank, **{**whole, **changed})
    yield record("SEND" if rank == 0 else "RECV", start_s + 0.007, 1.0, **of_message)


def _full(rank: int) -> dict[str, Any]:
    anchor = ClockAnchor(10**9, 1_770_388_246 * 10**9, 50)._asdict()
    offset = ClockOffset(10**9 * (1 + rank), 1000 * rank, 200, 0, "host0", "boot0", 100)._asdict()
    device = DeviceClockInfo("cuda:0", [], 500, 20, 10**9, 64, 0, 0, 0, "")._asdict()
    return {
        "host": f"host{rank}", "boot_id": f"boot{rank}", "world_size": 2, "labels": {"stage": "first"},
        "clock_anchors": [anchor], "clock_offsets": [offset, {**offset, "perf_counter_ns": 5 * 10**9}],
        "device_clocks": [{**device, "anchors": [DeviceAnchor(10**9, 400, 10)._asdict()]}],
        "options": {"record_every_n_steps": 1}, "logger_cpu_ns": 10**6, "written_bytes": 1000,
    }  # fmt: skip


def change_sidecar(timing_file: Path, change: Any) -> None:
    """Replace the sidecar's content by what ``change`` makes of it, in place or as its return value."""
    path = sidecar_path(timing_file)
    content = json.loads(path.read_text())
    changed = change(content)
    path.write_text(json.dumps(content if changed is None else changed))


def mutated(content: dict[str, Any], chance: random.Random) -> tuple[Any, str]:
    """Return a copy in which one value at a random place is replaced or deleted, and that place's path."""
    changed = copy.deepcopy(content)
    if chance.random() < 0.02:
        return chance.choice(POISON), "all of it"
    where, place, path = changed, chance.choice(list(changed)), ""
    while True:
        path += f".{place}" if isinstance(place, str) else f"[{place}]"
        inner = where[place]
        if not (isinstance(inner, (dict, list)) and inner) or chance.random() < 0.2:
            break
        where, place = inner, chance.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
    if chance.random() < 0.1:
        del where[place]
    else:
        where[place] = chance.choice(POISON)
    return changed, path[1:]


def say_all(
    folder: Path, out: Path, capsys: pytest.CaptureFixture[str], commands: Sequence[str] = COMMANDS
) -> dict[str, Said]:
    """Run each command on ``folder``, and return the results by command.

    Raises:
        AssertionError: a command raised, or ended neither with exit code 0 nor with 2 and one sentence.
    """
    said = {}
    out.mkdir(exist_ok=True)
    for number, command in enumerate(commands):
        name, *options = command.format(out=out / str(number)).split()
        try:
            code = main([name, str(folder), *options])
        except Exception as error:
            raise AssertionError(f"{command}: {type(error).__name__}: {error}") from error
        captured = capsys.readouterr()
        said[command] = Said(code, *captured)
        assert code == 0 or (code == 2 and re.fullmatch(r"timing-logger: .+\n", captured.err)), said[command]
    return said
