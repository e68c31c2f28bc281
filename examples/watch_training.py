"""Runs a training that is judged while it goes on, and reads what is told of it, as another program would:
events from a file, figures over HTTP. Four ranks, 70 seconds:

python examples/watch_training.py --log-dir logs/demo-live

The lines with a time come from `timing-logger run --monitor`. At the end the events are shown as they are in
verdicts.jsonl, and the figures as they were at the endpoint for Prometheus while a rank was slow.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

EXAMPLES = Path(__file__).parent
TIMING_LOGGER, TORCHRUN = (
    Path(sys.executable).with_name("timing-logger"),
    Path(sys.executable).with_name("torchrun"),
)
RANKS = 4
EVERY_S = 0.5
ALERT = "timing_logger_alert 1"
SHOWN = re.compile(
    r"^timing_logger_(alert|cost|named_ranks|rank_named|rank_waiting|step)\S* .*$", re.MULTILINE
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a training that is judged while it goes on.")
    parser.add_argument(
        "--log-dir", type=Path, default=Path("logs/demo-live"), help="an empty folder, or none"
    )
    parser.add_argument("options", nargs="*", help="those of train_live.py, after --")
    options = parser.parse_args()
    port = free_port()
    training = [TORCHRUN, "--standalone", "--nproc-per-node", str(RANKS), EXAMPLES / "train_live.py"]
    job = subprocess.Popen([
        TIMING_LOGGER, "run", "--log-dir", options.log_dir, "--monitor", "--prometheus", str(port), "--",
        *training, *options.options,
    ])  # fmt: skip
    figures = ""
    while job.poll() is None:
        time.sleep(EVERY_S)
        if ALERT not in figures and any(events(options.log_dir)):
            figures = scraped(port)
    print_all(list(events(options.log_dir)), figures)
    return job.returncode


def events(log_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield what was told up to now."""
    path = log_dir / "verdicts.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        yield json.loads(line)


def scraped(port: int) -> str:
    """Return some of the figures at the endpoint; "" if it is gone already."""
    try:
        with urlopen(f"http://localhost:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return ""
    return "\n".join(found[0] for found in SHOWN.finditer(text))


def print_all(told: list[dict[str, Any]], figures: str) -> None:
    print("== verdicts.jsonl")
    for event in told:
        shown = {name: event[name] for name in ("at", "change", "verdict", "ranks", "operation", "text")}
        print(json.dumps(shown))
    print("== at the endpoint, while the rank was slow")
    print(figures or "nothing was told, so nothing was asked")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
