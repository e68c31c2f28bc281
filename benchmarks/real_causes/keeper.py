"""Undoes what was made for a scenario, also where the benchmark is killed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_SAY_THAT_IT_RUNS, _WAIT_FOR_THE_END = "echo", "read _"


@contextmanager
def kept(undo: str, within: Sequence[str] = ()) -> Iterator[int]:
    """Have a shell run ``undo`` when the block ends, or this process does.

    The shell waits for the end of a pipe that only this process holds open. It has a session of its own, so
    Ctrl-C does not reach it.

    Args:
        undo: the shell's commands. What they undo may not have been made yet.
        within: a command that starts the shell, such as one that gives it a namespace.

    Yields:
        The process id of the shell.

    Raises:
        OSError: the shell could not be started.
    """
    script = f"{_SAY_THAT_IT_RUNS}; {_WAIT_FOR_THE_END}; {undo}"
    with subprocess.Popen(
        [*within, "sh", "-c", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    ) as shell:  # fmt: skip
        assert shell.stdin is not None
        assert shell.stdout is not None
        if not shell.stdout.readline():
            raise OSError(f"{' '.join(within)} is not possible")
        try:
            yield shell.pid
        finally:
            shell.stdin.close()
            shell.wait()


def called(*command: str) -> None:
    """Run a command; raise OSError, with what it said, if it fails or is not installed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stdout.strip()}")
