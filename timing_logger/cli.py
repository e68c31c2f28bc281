"""The command line: which report of which folder. It parses arguments and nothing else."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence

from timing_logger.errors import TimingLoggerError

_MIN_WIDTH, _USUAL_WIDTH, _MAX_WIDTH = 60, 100, 140


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments; default those of the process.

    Returns:
        The exit code: 0, or 2 if there is nothing to report on (stderr says why).
    """
    arguments = _parser().parse_args(argv)
    report: Callable[[argparse.Namespace], str] = arguments.report
    try:
        text = report(arguments)
    except (TimingLoggerError, OSError) as error:
        print(f"timing-logger: {error}", file=sys.stderr)
        return 2
    _print(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="timing-logger", description="Says where the time of a logged training run went."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    summary = commands.add_parser(
        "summary",
        help="operations by rank, totals by rank, files and counters",
        description="Per operation and rank: count, bytes, median and 99th percentile, total and share of "
        "wall time. Per rank: totals. Per file: rows read, and what its logger counted.",
        epilog="example: timing-logger summary logs/timing",
    )
    summary.add_argument(
        "logdir", metavar="LOGDIR", nargs="+", help="folder with timing-rank*.csv, or such files"
    )
    summary.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    summary.add_argument(
        "--incarnations",
        choices=["latest", "all"],
        default="latest",
        help="after restarts into the same folder: the newest file of each rank (default), or all",
    )
    summary.set_defaults(report=_summary)
    return parser


def _summary(arguments: argparse.Namespace) -> str:
    from timing_logger.analysis import overview
    from timing_logger.reading import read_timings
    from timing_logger.report import summary_json, summary_text

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report says what it warns of
        summary = overview(read_timings(arguments.logdir, incarnations=arguments.incarnations))
    return summary_json(summary) if arguments.json else summary_text(summary, _width())


def _width() -> int:
    columns = shutil.get_terminal_size((_USUAL_WIDTH, 24)).columns
    return min(max(columns, _MIN_WIDTH), _MAX_WIDTH)


def _print(text: str) -> None:
    """Write to stdout; a reader that closes the pipe early (``| head``) is content, not an error."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")  # names may hold what the terminal's encoding lacks
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left would be flushed at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
