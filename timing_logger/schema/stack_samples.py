"""The file of stack samples: where in the program's code its main thread was, a few times a second.

A rank that samples writes ``stacks-rank0.csv`` beside ``timing-rank0.csv``. Both halves make all they know of
it from here.
"""

from __future__ import annotations

from typing import NamedTuple


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
