"""The command line: its arguments and its output. The module ``commands`` does the rest."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import TypeAlias

import shtab

from timing_logger.cli import commands
from timing_logger.errors import TimingLoggerError

_KEYS = ("operation", "rank", "incarnation", "epoch", "iteration", "phase", "layer_name", "group")
_OTHER_NAMES = {"layer": "layer_name", "run": "incarnation"}
_VERDICTS = (
    "rank", "suspect", "role", "group-wide", "communication", "diffuse", commands.HANG, commands.UNJUDGED,
)  # fmt: skip
_ENDS = (commands.HANG, commands.UNFINISHED)
_ENGINES = ("auto", "pandas", "pyarrow")
_INTERRUPTED = 130  # a shell's exit code for SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of the command line.

    Args:
        argv: the arguments; default those of the process.

    Returns:
        The exit code: 0, even for a bad verdict; 1 for a verdict that ``--fail-on`` names; 2 if there is
            nothing to report on (stderr says why); 130 after an interrupt.
    """
    try:
        arguments = build_parser().parse_args(argv)
        command: commands.Command = arguments.command
        answer = command(arguments)
        _print(answer.text)
    except BrokenPipeError:  # a reader that closes the pipe early (``| head``) has all it wants
        # The remaining output would be flushed at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (TimingLoggerError, OSError) as error:
        print(f"timing-logger: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    return answer.exit_code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, which sets ``command`` to the function that does what was asked."""
    parser = argparse.ArgumentParser(
        prog="timing-logger",
        description="Says where the time of a logged training run went.",
        formatter_class=partial(argparse.HelpFormatter, max_help_position=18),
    )
    parser.add_argument("--version", action="version", version=f"timing-logger {version('timing_logger')}")
    shtab.add_argument_to(parser, "--print-completion", help="print what completes commands in this shell")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_summary(subparsers)
    _add_stragglers(subparsers)
    _add_hang(subparsers)
    _add_waits(subparsers)
    _add_bandwidth(subparsers)
    _add_overlap(subparsers)
    _add_compression(subparsers)
    _add_report(subparsers)
    _add_trace(subparsers)
    _add_convert(subparsers)
    _add_watch(subparsers)
    return parser


# -- commands --------------------------------------------------------------------------------------

_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add_summary(subparsers: _Commands) -> None:
    summary = _question(
        subparsers,
        "summary",
        commands.summary,
        "operations by rank, totals by rank, files and counters",
        "Per operation and rank: count, bytes, median and 99th percentile, total and share of wall "
        "time. Per rank: totals. Per file: rows read, and what its logger counted.",
    )
    summary.add_argument(
        "--by", type=_keys, metavar="KEYS",
        help=f"only totals, by any of {', '.join(_KEYS)}; several with commas",
    )  # fmt: skip


def _add_stragglers(subparsers: _Commands) -> None:
    stragglers = _question(
        subparsers,
        "stragglers",
        commands.stragglers,
        "which rank is slow, in which phase, since when, at what cost; or nobody",
        "The verdict, what decided it, and the windows of iterations in which a rank was slower than its "
        "peers. Ranks that were given the same labels are peers.",
    )
    stragglers.add_argument(
        "--fail-on", type=_verdicts, metavar="VERDICTS", default=(),
        help=f"exit with {commands.BAD_NEWS} if the verdict is one of these: any of {', '.join(_VERDICTS)}; "
        "several with commas",
    )  # fmt: skip


def _add_hang(subparsers: _Commands) -> None:
    hang = _question(
        subparsers,
        "hang",
        commands.hang,
        "did the run end, and if not: who hangs in what, and who never came",
        "Per collective that did not end: which ranks are inside since when, which never entered it and what "
        "they did last, whether ranks disagree; messages without a partner; processes that are gone.",
        of_iterations=False,  # the end of a run is in its last
    )
    hang.add_argument(
        "--fail-on", type=_ends, metavar="ENDS", default=(),
        help=f"exit with {commands.BAD_NEWS} if the run ended so: any of {', '.join(_ENDS)}; several with "
        "commas",
    )  # fmt: skip


def _add_waits(subparsers: _Commands) -> None:
    _question(
        subparsers,
        "waits",
        commands.waits,
        "who waits for whom in the collectives",
        "Per operation and rank: time waited for the last to arrive, how far arrivals lie apart, the "
        "transfer itself, and how often the rank was the last.",
    )


def _add_bandwidth(subparsers: _Commands) -> None:
    _question(
        subparsers,
        "bandwidth",
        commands.bandwidth,
        "algorithm and bus bandwidth by operation, group and size",
        "Per operation, group and class of sizes: bandwidths as nccl-tests defines them, with and without "
        "the wait for the last rank.",
    )


def _add_overlap(subparsers: _Commands) -> None:
    overlap = _question(
        subparsers,
        "overlap",
        commands.overlap,
        "how much communication is hidden behind computing",
        "Per rank: communication that was exposed and hidden, own work, waits and copies.",
    )
    overlap.add_argument(
        "--by", choices=["rank", "iteration"], default="rank",
        help="one row per rank, with medians (default), or per rank and iteration",
    )  # fmt: skip


def _add_compression(subparsers: _Commands) -> None:
    compression = _question(
        subparsers,
        "compression",
        commands.compression,
        "does compressing pay, layer by layer",
        "Per compressed layer: what it takes, what an uncompressed allreduce of its size would take at the "
        "bandwidth measured, bytes saved, and the break-even.",
    )
    compression.add_argument(
        "--dense", metavar="LOGDIR", help="take the uncompressed bandwidth from this run instead"
    )


def _add_report(subparsers: _Commands) -> None:
    report = _about_rows(
        subparsers,
        "report",
        commands.report,
        "one HTML file with all of it, which opens offline",
        "The verdict with its evidence, a heatmap of rank by iteration, operations, bandwidth, overlap, "
        "compression, a timeline that zooms, the logger's own accounting, and what could not be known.",
        "example: timing-logger report logs/timing -o report.html",
    )
    _add_scheduler(report)
    report.add_argument("-o", "--output", required=True, metavar="FILE", help="what to write")


def _add_trace(subparsers: _Commands) -> None:
    trace = _about_rows(
        subparsers,
        "trace",
        commands.trace,
        "a timeline of all ranks for Perfetto",
        "Chrome JSON: a process for each rank, a lane for each thread or stream, arrows between the parts "
        "of a collective and from sends to receives.",
        "example: timing-logger trace logs/timing -o trace.json.gz",
    )
    trace.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="what to write; compressed if it ends in .gz"
    )


def _add_convert(subparsers: _Commands) -> None:
    convert: argparse.ArgumentParser = subparsers.add_parser(
        "convert",
        help="timing files as Parquet, CSV or JSON lines",
        description="All rows of all incarnations, typed and sorted by rank and start. Parquet can be read "
        "instead of the timing files.",
        epilog="example: timing-logger convert logs/timing --to parquet -o logs/timing-parquet",
    )
    _add_logdir(convert)
    convert.add_argument("--to", required=True, choices=["parquet", "csv", "jsonl"], help="the format")
    convert.add_argument(
        "-o", "--output", required=True, metavar="PATH",
        help="the file to write; for Parquet a folder, unless it ends in .parquet",
    )  # fmt: skip
    convert.set_defaults(command=commands.convert)


def _add_watch(subparsers: _Commands) -> None:
    watch: argparse.ArgumentParser = subparsers.add_parser(
        "watch",
        help="a live table of a run in progress",
        description="Per rank: iterations and rows per second, communication, waits, open operations, drops, "
        "and since when it is silent; and the verdict on the last seconds. Reads the ends of the files and "
        "changes nothing. Ends with Ctrl-C.",
        epilog="example: timing-logger watch logs/timing",
    )
    watch.add_argument("logdir", metavar="LOGDIR", help="folder with timing-rank*.csv")
    watch.add_argument(
        "--interval", type=_seconds, default=2.0, metavar="S", help="seconds between looks (2)"
    )
    watch.add_argument(
        "--window", type=_seconds, default=30.0, metavar="S", help="seconds of the run to look at (30)"
    )
    watch.add_argument("--once", action="store_true", help="look once and exit")
    watch.set_defaults(command=commands.watch)


def _question(
    subparsers: _Commands,
    name: str,
    command: commands.Command,
    short: str,
    long: str,
    *,
    of_iterations: bool = True,
) -> argparse.ArgumentParser:
    """Add a command that reads files, selects rows, and prints an answer as text or JSON.

    Args:
        of_iterations: whether the command can select iterations.
    """
    example = f"example: timing-logger {name} logs/timing"
    parser = _about_rows(subparsers, name, command, short, long, example, of_iterations)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    _add_scheduler(parser)
    return parser


def _add_scheduler(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="let the workers of this Dask scheduler read the files; they see them under the same paths",
    )  # fmt: skip


def _about_rows(
    subparsers: _Commands,
    name: str,
    command: commands.Command,
    short: str,
    long: str,
    example: str,
    of_iterations: bool = True,
) -> argparse.ArgumentParser:
    """A command that reads files and selects rows."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=short, description=long, epilog=example
    )
    _add_logdir(parser)
    parser.add_argument("--ranks", type=_ranks, metavar="LIST", help="only these, such as 0,2,8-15")
    if of_iterations:
        parser.add_argument(
            "--iterations", type=_iterations, metavar="A:B",
            help="only those from A on and before B, in every epoch; either may be left out",
        )  # fmt: skip
    parser.add_argument(
        "--run", type=_run, default="last", metavar="last|all|N",
        help="after restarts into the same folder: the last run (default), all, or the one with this number, "
        "such as 2 for that of the files called .run2",
    )  # fmt: skip
    parser.add_argument(
        "--engine", choices=_ENGINES, default="auto",
        help="what reads the files: by default pyarrow for large ones, see docs/large-runs.md",
    )  # fmt: skip
    parser.set_defaults(command=command, **({} if of_iterations else {"iterations": None}))
    return parser


def _add_logdir(parser: argparse.ArgumentParser) -> None:
    logdir = parser.add_argument(
        "logdir", metavar="LOGDIR", nargs="+", help="folder with timing-rank*.csv, or such files"
    )
    vars(logdir)["complete"] = shtab.FILE  # this completes folders, too


# -- arguments ---------------------------------------------------------------------------------------


def _keys(text: str) -> list[str]:
    names = [_OTHER_NAMES.get(name, name) for name in text.split(",")]
    return _some_of(names, _KEYS, text)


def _verdicts(text: str) -> list[str]:
    return _some_of(text.split(","), _VERDICTS, text)


def _ends(text: str) -> list[str]:
    return _some_of(text.split(","), _ENDS, text)


def _some_of(names: list[str], known: Sequence[str], text: str) -> list[str]:
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: name each once, of {', '.join(known)}")
    return names


def _ranks(text: str) -> set[int]:
    ranks: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            raise argparse.ArgumentTypeError(f"{text!r}: say ranks and ranges with commas, such as 0,2,8-15")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise argparse.ArgumentTypeError(f"{text!r}: say the lower rank of {part} first")
        ranks.update(range(first, last + 1))
    return ranks


def _iterations(text: str) -> slice:
    match = re.fullmatch(r"(\d*):(\d*)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: say A:B, such as 100:200, 100: or :200")
    start, stop = (int(number) if number else None for number in match.groups())
    return slice(start, stop)


def _run(text: str) -> str | int:
    """Return the value of ``incarnations`` for ``read_timings``."""
    if text in ("last", "all"):
        return "latest" if text == "last" else text
    if re.fullmatch(r"[1-9]\d*", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r}: say last, all, or the number of a run, such as 2")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: say a number of seconds above 0")
    return seconds


# -- output ------------------------------------------------------------------------------------------


def _print(text: str) -> None:
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")  # names may contain what the terminal cannot encode
    sys.stdout.write(text)
    sys.stdout.flush()
