"""The command-line program ``timing-logger``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from timing_logger.cli.ctrl_c import ended_at_once

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of the command line.

    Args:
        argv: the arguments; default those of the process, which is then this command's: Ctrl-C ends it.

    Returns:
        The exit code: 0, even for a bad verdict; 1 for a verdict that ``--fail-on`` names; 2 if there is
            nothing to report on (stderr says why); 130 after an interrupt.
    """
    with ended_at_once() if argv is None else nullcontext():
        from timing_logger.cli import parser  # an interrupt while this is imported has its effect, too

        return parser.main(argv)
