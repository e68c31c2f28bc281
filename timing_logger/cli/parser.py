"""The command line: its arguments, and how its output is printed."""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn, TextIO, TypeAlias

import shtab

from timing_logger import which_core
from timing_logger.cli import commands, launch, option_values
from timing_logger.cli.default_folder import FOLDERS, name_folder
from timing_logger.cli.queries import Answer
from timing_logger.cli.questions import QUESTIONS, Question
from timing_logger.cli.shown_progress import shown
from timing_logger.cli.stderr import say
from timing_logger.errors import TimingLoggerError

_Command: TypeAlias = Callable[[argparse.Namespace], Answer]

_ENGINES = ("auto", "pandas", "pyarrow")
_DEFAULT = f"default: of {' and '.join(FOLDERS)}, the one written to last"
_INTERRUPTED = 130  # a shell's exit code for SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, as ``cli.main`` says, and return its exit code."""
    try:
        parser = build_parser()
        arguments = parser.parse_args(argv)
        command: _Command | None = arguments.command
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            name_folder(arguments)
            with shown(arguments.shown_as):
                answer = Answer(parser.format_help()) if command is None else command(arguments)
        if answer.text:
            _print(answer.text)
    except BrokenPipeError:  # a reader that closes the pipe early (``| head``) has all it wants
        # The remaining output would be flushed at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (TimingLoggerError, OSError) as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    return answer.exit_code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, which sets ``command`` to the function that does what was asked."""
    parser = _Parser(
        prog="timing-logger",
        description="Says where the time of a logged training run went, and which rank is slow.",
        formatter_class=partial(argparse.HelpFormatter, max_help_position=18),
    )
    parser.add_argument(
        "--version",
        action="version",
        version=_version(),
        help="print the version, and which core records",
    )
    shtab.add_argument_to(parser, "--print-completion", help="print what completes commands in this shell")
    parser.set_defaults(shown_as="")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_run(subparsers)
    for question in QUESTIONS:
        _add_question(subparsers, question)
    _add_report(subparsers)
    _add_trace(subparsers)
    _add_convert(subparsers)
    _add_recover(subparsers)
    _add_watch(subparsers)
    return parser


def _version() -> str:
    note = f": {which_core.NOTE}." if which_core.NOTE else "."
    try:
        number = version("timing_logger")
    except PackageNotFoundError:  # Python found its folder
        number = "(not installed)"
    return f"timing-logger {number}. Records with the {which_core.NAME} core{note}"


class _Parser(argparse.ArgumentParser):
    """A parser whose error for a mistyped choice or option says what was probably meant."""

    def error(self, message: str) -> NoReturn:
        meant: list[str] = []
        if wrong := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            meant = get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1)
        elif wrong := re.search(r"unrecognized arguments: (--[\w-]+)", message):
            known = self._options_of_commands()
            meant = [] if wrong[1] in known else get_close_matches(wrong[1], known, 1)
        super().error(f"{message}. Did you mean {meant[0]!r}?" if meant else message)

    def _options_of_commands(self) -> set[str]:
        text = "".join(
            parser.format_usage()
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for parser in action.choices.values()
        )
        return set(re.findall(r"--[\w-]+", text))


# -- commands --------------------------------------------------------------------------------------

_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


def _add_run(subparsers: _Commands) -> None:
    run: argparse.ArgumentParser = subparsers.add_parser(
        "run",
        help="time a job without changing its code; at its end, say who is slow",
        description="Runs COMMAND (python, torchrun, mpiexec, accelerate, ...) exactly as written. Every "
        "rank times its collectives and the parts of its steps. Output, signals and exit code are those of "
        "the job; what this command says at the end goes to stderr.",
        epilog="example: timing-logger run -- torchrun --nproc-per-node 4 train.py",
    )
    run.add_argument(
        "--log-dir",
        default="logs/run",
        metavar="DIR",
        help="where to write the timing files (default logs/run)",
    )
    run.add_argument("--report", metavar="FILE", help="also write the HTML report at the end")
    run.add_argument(
        "--every", type=option_values.count, default=1, metavar="N", help="record every Nth iteration"
    )
    run.add_argument(
        "--no-batch-work",
        action="store_true",
        help="DATA rows do not state how much was loaded (tokens or samples, by the shapes of the batch)",
    )
    run.add_argument(
        "--no-host-counters",
        action="store_true",
        help="write no host-rank*.csv: what the host, the process and its devices count, once a second",
    )
    run.add_argument(
        "--native-mpi", action="store_true", help="time only MPI calls, in a program in any language"
    )
    run.add_argument("--quiet", action="store_true", help="say nothing at the end")
    run.add_argument("job", metavar="COMMAND", nargs=argparse.REMAINDER, help="what to run, after --")
    run.set_defaults(command=launch.run)


def _add_report(subparsers: _Commands) -> None:
    report = _about_rows(
        subparsers,
        "report",
        commands.report,
        "everything in one HTML file that opens offline",
        "The verdict with its evidence, a heatmap of rank by iteration, operations, bandwidth, overlap, "
        "compression, a timeline that zooms, the logger's own accounting, and what could not be known.",
        "example: timing-logger report logs/timing",
    )
    _add_scheduler(report)
    report.add_argument(
        "-o", "--output", default="report.html", metavar="FILE", help="what to write (report.html)"
    )


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
        description="Converts all rows, including those of earlier runs in the same folder, sorted by rank "
        "and start. Parquet files can be read in place of the timing files.",
        epilog="example: timing-logger convert logs/timing --to parquet -o logs/timing-parquet",
    )
    _add_logdir(convert)
    convert.add_argument("--to", required=True, choices=["parquet", "csv", "jsonl"], help="the format")
    convert.add_argument(
        "-o", "--output", required=True, metavar="PATH",
        help="the file to write; for Parquet a folder, unless it ends in .parquet",
    )  # fmt: skip
    convert.set_defaults(command=commands.convert, shown_as="convert")


def _add_watch(subparsers: _Commands) -> None:
    watch: argparse.ArgumentParser = subparsers.add_parser(
        "watch",
        help="a live table of a run in progress",
        description="For each rank: iterations and rows per second, communication, waits, open operations, "
        "drops, and how long it has been silent; then the verdict on the last seconds. Reads the ends of "
        "the files and changes nothing. Stop it with Ctrl-C.",
        epilog="example: timing-logger watch logs/timing",
    )
    watch.add_argument(
        "logdir", metavar="LOGDIR", nargs="?", help=f"folder with timing-rank*.csv; {_DEFAULT}"
    )
    watch.add_argument(
        "--interval", type=option_values.seconds, default=2.0, metavar="S", help="seconds between updates (2)"
    )
    watch.add_argument(
        "--window",
        type=option_values.seconds,
        default=30.0,
        metavar="S",
        help="seconds of the run to look at (30)",
    )
    watch.add_argument("--all", action="store_true", help="show all ranks, however many")
    watch.add_argument("--once", action="store_true", help="look once and exit")
    watch.set_defaults(command=commands.watch)


def _add_recover(subparsers: _Commands) -> None:
    recover: argparse.ArgumentParser = subparsers.add_parser(
        "recover",
        help="add what killed processes had recorded to their files",
        description="The last records of a killed process wait in a file on its machine. Every command that "
        "reads the log folder on that machine first adds them to the timing files; this one does only that.",
        epilog="example: timing-logger recover logs/timing",
    )
    recover.add_argument(
        "logdir", metavar="LOGDIR", nargs="?", help=f"folder with timing-rank*.csv; {_DEFAULT}"
    )
    recover.set_defaults(command=commands.recover, shown_as="recover")


def _add_question(subparsers: _Commands, question: Question) -> None:
    example = f"example: timing-logger {question.name} logs/timing"
    parser = _about_rows(
        subparsers,
        question.name,
        question.answer,
        question.short,
        question.long,
        example,
        question.of_iterations,
    )
    for flag, its_arguments in question.options:
        parser.add_argument(flag, **its_arguments)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    _add_scheduler(parser)


def _add_scheduler(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="have the workers of this Dask scheduler read the files; they must see them under the same "
        "paths",
    )  # fmt: skip


def _about_rows(
    subparsers: _Commands,
    name: str,
    command: _Command,
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
    parser.add_argument(
        "--ranks", type=option_values.ranks, metavar="LIST", help="only these ranks, such as 0,2,8-15"
    )
    if of_iterations:
        parser.add_argument(
            "--iterations", type=option_values.iterations, metavar="A:B",
            help="only iterations from A up to, but not including, B, in every epoch; either may be left out",
        )  # fmt: skip
    parser.add_argument(
        "--run", type=option_values.run, default="last", metavar="last|all|N",
        help="if several runs wrote into the folder: the one that began last (default), all, or the one "
        "with this number, such as 2 for the files named .run2",
    )  # fmt: skip
    parser.add_argument(
        "--world", default="", metavar="NAME",
        help="if ranks were spawned (MPI_Comm_spawn): the world with this name (default: the first)",
    )  # fmt: skip
    parser.add_argument(
        "--engine", choices=_ENGINES, default="auto",
        help="what reads the files (default: pyarrow for large ones)",
    )  # fmt: skip
    parser.set_defaults(command=command, shown_as=name, **({} if of_iterations else {"iterations": None}))
    return parser


def _add_logdir(parser: argparse.ArgumentParser) -> None:
    logdir = parser.add_argument(
        "logdir", metavar="LOGDIR", nargs="*",
        help=f"folder with timing-rank*.csv files, or the files; {_DEFAULT}",
    )  # fmt: skip
    vars(logdir)["complete"] = shtab.FILE  # this completes folders, too


# -- output ------------------------------------------------------------------------------------------


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one of this command's own lines: where in the code it arose helps nobody here."""
    say(str(message))


def _print(text: str) -> None:
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")  # names may contain what the terminal cannot encode
    sys.stdout.write(text)
    sys.stdout.flush()
