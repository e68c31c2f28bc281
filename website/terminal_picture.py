"""Draws docs/terminal.svg: a terminal session that was really run, as a picture that moves.

make picture runs the commands in a folder of its own, and draws what they print, each line when it came
(pauses are cut short). The picture stands still where motion is to be reduced.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "terminal.svg"
PROGRAM = ROOT / "tests" / "unchanged_programs" / "ddp.py"
COMMANDS = (
    "timing-logger run -- torchrun --nproc-per-node 2 train.py",
    "timing-logger summary logs/run | head -16",
)
WIDTH = 104
MARGINS = 3  # columns of the picture that no text reaches, at both sides together
LONGEST_PAUSE_S, TYPING_S = 2.0, 1.5

FRAME = """\
<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>A terminal session</title>
<style>
text {{ font: {char_height}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }}
@keyframes appear {{ from {{ opacity: 0 }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none !important }} }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="{terminal_width}" height="{terminal_height}" rx="10" fill="#1e222a"/>
<g transform="translate(14, 12)">{matrix}</g>
</svg>
"""


class Line(NamedTuple):
    """A line of the session, and the seconds after which it appears."""

    after_s: float
    text: Text


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(PROGRAM, Path(folder) / "train.py")
        session = list(_session(Path(folder)))
    console = Console(record=True, width=WIDTH + MARGINS, file=StringIO(), force_terminal=True)
    instants = []
    for line in session:
        wrapped = line.text.wrap(console, WIDTH)
        instants += [line.after_s] * len(wrapped)
        console.print(*wrapped, sep="\n")
    picture = console.export_svg(code_format=FRAME, unique_id="terminal")
    PICTURE.write_text(_moving(picture, instants), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {len(instants)} lines, {instants[-1]:.1f} s")


def _session(folder: Path) -> Iterator[Line]:
    now_s = 0.0
    for command in COMMANDS:
        yield Line(now_s, Text(f"$ {command}", style="bold #ffffff"))
        now_s += TYPING_S
        for waited_s, printed in _lines_of(command, folder):
            now_s += min(waited_s, LONGEST_PAUSE_S)
            ours = printed.startswith("timing-logger: ")
            yield Line(now_s, Text(printed, style="#8fd18f" if ours else "#c5c8c6"))
        now_s += LONGEST_PAUSE_S


def _lines_of(command: str, folder: Path) -> Iterator[tuple[float, str]]:
    """Run a command, and yield its lines with the seconds for which each was waited."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": str(WIDTH)}
    job = subprocess.Popen(
        command, shell=True, cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert job.stdout is not None
    since = time.monotonic()
    for line in job.stdout:
        now = time.monotonic()
        yield now - since, line.rstrip("\n")
        since = now
    if job.wait():
        raise SystemExit(f"{command}: exit code {job.returncode}")


def _moving(picture: str, instants: list[float]) -> str:
    """Have each line appear at its instant."""

    def appearing(line: re.Match[str]) -> str:
        return f'<text style="animation: appear .1s {instants[int(line[2])]:.1f}s both" {line[1]}'

    return re.sub(r'<text (.*?clip-path="url\(#terminal-line-(\d+)\)")', appearing, picture)


if __name__ == "__main__":
    main()
