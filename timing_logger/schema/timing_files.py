"""The names of timing files, of sidecars, and of the files beside them; and the lines of stack samples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

MAX_RANK = 2**31 - 1
"""The largest rank: MPI's own limit, and enough for any job."""

_FILE_NAME = re.compile(
    r"timing-rank(?P<rank>\d+)(?:\.run(?P<incarnation>\d+))?(?:\.part(?P<part>\d+))?\.csv"
)

KEYS = ("operation", "rank", "incarnation", "epoch", "iteration", "phase", "layer_name", "group")
"""The columns by which rows are put together: those of a row, and what the name of its file states."""

CALLED = {"layer_name": "layer", "incarnation": "run"}
"""What columns are called that have another name in reports and on the command line."""


class TimingFile(NamedTuple):
    """The parts of a timing file's name: the rank, the incarnation of that rank, and the number of the part.

    The first process of a rank writes ``timing-rank0.csv``. A later one (a restart into the same folder, or a
    second process with the same rank) finds that name taken, leaves the file alone and writes
    ``timing-rank0.run2.csv``. When a process continues in another file, that file is a part:
    ``timing-rank0.part2.csv``, ``timing-rank0.run2.part2.csv``. All parts share one sidecar.
    """

    rank: int
    incarnation: int = 1
    part: int = 1

    @property
    def name(self) -> str:
        """The file name, such as ``timing-rank0.run2.part2.csv``."""
        return f"timing-rank{self.rank}{run_and_part(self.incarnation, self.part)}.csv"

    @property
    def first(self) -> TimingFile:
        """The name of the first part, which stands for all parts."""
        return self._replace(part=1)

    @classmethod
    def parse(cls, name: str) -> TimingFile | None:
        """Return what a file name states; None if it is not the name of a timing file."""
        match = _FILE_NAME.fullmatch(name)
        found = cls(*(int(number or 1) for number in match.groups())) if match else None
        return found if found is not None and max(found) <= MAX_RANK else None


def run_and_part(incarnation: int, part: int) -> str:
    """Return how a file name ends, such as ``.run2.part2``; "" for the first file of the first run."""
    run = "" if incarnation == 1 else f".run{incarnation}"
    return run if part == 1 else f"{run}.part{part}"


def sidecar_path(timing_file: Path) -> Path:
    """Return the path of a timing file's sidecar, which all its parts share.

    For ``.../timing-rank0.csv`` it is ``.../timing-rank0.meta.json``.
    """
    name = TimingFile.parse(timing_file.name)
    first = timing_file if name is None or name.part == 1 else timing_file.with_name(name.first.name)
    return first.with_suffix(".meta.json")


# -- files beside a timing file ------------------------------------------------------------------------


_TIMING = "timing"


class FilesBeside(NamedTuple):
    """The files of one kind.

    Attributes:
        kind: what their names begin with, in the place of ``timing``.
    """

    kind: str

    def name(self, of: TimingFile) -> str:
        """Return the name of the file beside a timing file, such as ``host-rank0.run2.csv``."""
        return self.kind + of.name.removeprefix(_TIMING)

    def path(self, timing_file: Path) -> Path:
        """Return the path of the file beside a timing file."""
        of = TimingFile.parse(timing_file.name)
        return timing_file.with_name(self.name(of) if of else self.kind + timing_file.name)

    def parse(self, name: str) -> TimingFile | None:
        """Return the timing file beside which a file stands; None if it is not the name of one."""
        return (
            TimingFile.parse(_TIMING + name.removeprefix(self.kind)) if name.startswith(self.kind) else None
        )


HOST = FilesBeside("host")
"""What the host counted, see :mod:`timing_logger.schema.host_counters`."""

STACKS = FilesBeside("stacks")
"""Where the main thread was, see :class:`StackSample`."""

KINDS = HOST, STACKS


# -- stack samples ------------------------------------------------------------------------------------


class StackSample(NamedTuple):
    """Where the main thread was at one instant: a line of the file.

    Attributes:
        counter: the instant, in seconds on the process's ``perf_counter`` axis.
        function: the innermost function of the program's own code: neither of the standard library nor of an
            installed package, unless there is none else.
        file: its file, as the last two parts of the path.
        line: the line of it that runs.
        library_call: the function of a library that this line has called, as ``function (file)``; "" if
            none, or if what runs is written in C.
    """

    counter: float
    function: str
    file: str
    line: int
    library_call: str


COLUMNS = StackSample._fields

HEADER = ",".join(COLUMNS) + "\n"
