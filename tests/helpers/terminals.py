"""Programs on a terminal of their own, and what is left of them when they have ended."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from conditions import wait_for
from limits import LIMIT_S

CTRL_C = b"\x03"


class OnTerminal:
    """A program whose stderr is a terminal.

    Attributes:
        process: the program, which leads a session of its own.
        terminal: the other end of its terminal.
        said: what it has written there, as far as nobody waited for it.
        all_said: all that it has written there.
    """

    def __init__(self, process: subprocess.Popen[str], terminal: int) -> None:
        self.process, self.terminal = process, terminal
        self.said = self.all_said = b""

    def until(self, text: bytes) -> None:
        """Read what it writes until ``text`` is there; it counts from here on."""
        deadline = time.monotonic() + LIMIT_S
        while text not in self.said:
            assert self._read(deadline - time.monotonic()), f"no {text!r} in {self.said[-2000:]!r}"
        self.said = self.said.split(text, 1)[1]

    def press(self, key: bytes) -> None:
        os.write(self.terminal, key)

    def ended(self) -> tuple[int, str, bytes]:
        """Return its exit code, what it printed, and what it wrote to the terminal since."""
        out, _ = self.process.communicate(timeout=LIMIT_S)
        while self._read(0):
            pass
        return self.process.returncode, out, self.said

    def _read(self, within_s: float) -> bool:
        if not select.select([self.terminal], [], [], max(within_s, 0))[0]:
            return False
        try:
            found = os.read(self.terminal, 65536)
        except OSError:  # nobody has the other end any more
            return False
        self.said += found
        self.all_said += found
        return bool(found)


@contextmanager
def on_terminal(
    command: Sequence[object], *, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[OnTerminal]:
    """Run a program whose stdin and stderr are a terminal, which it is in the foreground of."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        list(map(str, command)), stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, text=True, cwd=cwd,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "60", "LINES": "40", **(environment or {})},
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(terminal)
    try:
        yield OnTerminal(process, controller)
    finally:
        end_session(process.pid)
        process.communicate()
        os.close(controller)


def of_session(leader: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:4]
        except OSError:  # it has ended meanwhile
            continue
        if int(session) == leader and state != "Z":
            found.append(int(entry.name))
    return found


def wait_for_end_of_session(leader: int) -> None:
    wait_for(lambda: not of_session(leader), lambda: f"the end of {of_session(leader)}")


def end_session(leader: int) -> None:
    for process in of_session(leader):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
