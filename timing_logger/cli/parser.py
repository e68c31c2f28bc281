"""The command line: its arguments, and how its output is printed."""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

import shtab

from timing_logger.cli import commands, comparing, import_logs, option_values
from timing_logger.cli.option_values import FOLDERS, name_folder, print_in_colour
from timing_logger.cli.queries import Answer
from timing_logger.cli.questions import EXPECTED, QUESTIONS, Command, fail_on, option
from timing_logger.cli.stderr import say, shown
from timing_logger.errors import TimingLoggerError
from timing_logger.process import which_core
from timing_logger.schema.defaults import MONITOR_EVERY_S, MONITOR_WINDOW_S

_DEFAULT = f"default: of {' and '.join(FOLDERS)}, the one written to last"
_INTERRUPTED = 130  # a shell's exit code for SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, as ``cli.main`` says, and return its exit code."""
    try:
        arguments, unknown = build_parser().parse_known_args(argv)
        if unknown:
            arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            name_folder(arguments)
            with shown(arguments.shown_as):
                answer: Answer = arguments.command(arguments)
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
        "--version", action="version", version=_version(), help="print the version, and which core records"
    )
    shtab.add_argument_to(parser, "--print-completion", help="print what completes commands in this shell")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    parser.set_defaults(command=lambda _: Answer(parser.format_help()), shown_as="", parser=parser)
    for command in _COMMANDS:
        _add(command, subparsers)
    return parser


def _add(command: Command, subparsers: argparse._SubParsersAction[_Parser]) -> None:
    example = f"example: timing-logger {command.example or f'{command.name} logs/timing'}"
    parser: argparse.ArgumentParser = subparsers.add_parser(
        command.name, help=command.short, description=command.long, epilog=example
    )
    for names, further in command.options:
        argument = parser.add_argument(*names, **further)
        if names == ("logdir",) and argument.nargs == "*":
            vars(argument)["complete"] = shtab.FILE  # this completes folders, too
    defaults = {"shown_as": command.name, "parser": parser, **command.defaults}
    parser.set_defaults(command=command.answer, **defaults)


def _version() -> str:
    note = f": {which_core.NOTE}." if which_core.NOTE else "."
    try:
        number = version("timing_logger")
    except PackageNotFoundError:  # Python found its folder
        number = "(not installed)"
    return f"timing-logger {number}. Records with the {which_core.NAME} core{note}"


_ALIKE = 0.75  # a mistyped option; --once is like --json by 0.67


class _Parser(argparse.ArgumentParser):
    """A parser whose error for a mistyped choice or option says what was probably meant."""

    def error(self, message: str) -> NoReturn:
        meant: list[str] = []
        if wrong := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            meant = get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1)
        elif wrong := re.search(r"unrecognized arguments: (--[\w-]+)", message):
            known = [name for action in self._actions for name in action.option_strings]
            meant = get_close_matches(wrong[1], known, 1, _ALIKE)
        super().error(f"{message}. Did you mean {meant[0]!r}?" if meant else message)


# -- commands --------------------------------------------------------------------------------------

_LOGDIR = option(
    "logdir", metavar="LOGDIR", nargs="*",
    help=f"folder with timing-rank*.csv files, or the files; {_DEFAULT}",
)  # fmt: skip
_FOLDER = option("logdir", metavar="LOGDIR", nargs="?", help=f"folder with timing-rank*.csv; {_DEFAULT}")
_ITERATIONS = option(
    "--iterations", type=option_values.iterations, metavar="A:B",
    help="only iterations from A up to, but not including, B, in every epoch; either may be left out",
)  # fmt: skip
_ENGINE = option(
    "--engine", choices=("auto", "pandas", "pyarrow"), default="auto",
    help="what reads the files (default: pyarrow for large ones)",
)  # fmt: skip
_ROWS = (
    _LOGDIR,
    option("--ranks", type=option_values.ranks, metavar="LIST", help="only these ranks, such as 0,2,8-15"),
    _ITERATIONS,
    option(
        "--run", type=option_values.run, default="last", metavar="last|all|N",
        help="if several runs wrote into the folder: the one that began last (default), all, or the one "
        "with this number, such as 2 for the files named .run2",
    ),
    option(
        "--world", default="", metavar="NAME",
        help="if ranks were spawned (MPI_Comm_spawn): the world with this name (default: the first)",
    ),
    _ENGINE,
)  # fmt: skip
"""The files that a command reads, and the rows of them that it selects."""
_SCHEDULER = option(
    "--scheduler", metavar="ADDRESS",
    help="have the workers of this Dask scheduler read the files; they must see them under the same paths",
)  # fmt: skip
_JSON = option("--json", action="store_true", help="print one JSON object instead of tables")


def _asking(question: Command) -> Command:
    """Return the command that asks a question, with all its arguments."""
    rows = [one for one in _ROWS if one is not _ITERATIONS or question.of_iterations]
    defaults = {} if question.of_iterations else {"iterations": None}
    return replace(question, options=[*rows, *question.options, _JSON, _SCHEDULER], defaults=defaults)


def _run(arguments: Namespace) -> Answer:
    from timing_logger.cli.launch import run  # which knows of the library for MPI: no other command does

    return run(arguments)


_COMMANDS = (
    Command(
        "run",
        "time a job without changing its code; at its end, say who is slow",
        "Runs COMMAND (python, torchrun, mpiexec, accelerate, ...) exactly as written. Every rank times its "
        "collectives and the parts of its steps. Output, signals and exit code are those of the job; what "
        "this command says at the end goes to stderr.",
        _run,
        [
            option(
                "--log-dir", default="logs/run", metavar="DIR",
                help="where to write the timing files (default logs/run)",
            ),
            option("--report", metavar="FILE", help="also write the HTML report at the end"),
            option(
                "--every", type=option_values.count, default=1, metavar="N", help="record every Nth iteration"
            ),
            option(
                "--no-batch-work", action="store_true",
                help="DATA rows do not state how much was loaded (tokens or samples, by the shapes of the "
                "batch)",
            ),
            option(
                "--no-host-counters", action="store_true",
                help="write no host-rank*.csv: what the host, the process and its devices count, once a "
                "second",
            ),
            option(
                "--sample-stacks", action="store_true",
                help="also write stacks-rank*.csv, five times a second which line of the program's code the "
                "main thread is in: the code of a slow rank is named",
            ),
            option(
                "--native-mpi", action="store_true", help="time only MPI calls, in a program in any language"
            ),
            option(
                "--monitor", action="store_true",
                help="say while the job runs when somebody is found slow, when that changes and when it is "
                "over; each is a line of verdicts.jsonl, too",
            ),
            option(
                "--monitor-every", type=option_values.seconds, default=MONITOR_EVERY_S, metavar="S",
                help=f"how often the monitor looks ({MONITOR_EVERY_S:g} s)",
            ),
            option(
                "--webhook", metavar="URL",
                help="post there what the monitor tells; env:NAME for a variable that has the address",
            ),
            option(
                "--prometheus", type=option_values.count, metavar="PORT",
                help="show the figures of the run at this port of this host, for Prometheus",
            ),
            option("--quiet", action="store_true", help="say nothing at the end"),
            option("job", metavar="COMMAND", nargs=argparse.REMAINDER, help="what to run, after --"),
        ],
        "run -- torchrun --nproc-per-node 4 train.py",
        defaults={"shown_as": ""},
    ),
    *map(_asking, QUESTIONS),
    Command(
        "compare",
        "is a program slower than before? Its runs against earlier ones",
        "Compares runs of a program with others, of the program before a change: is a step slower, how sure "
        "is that, and what explains it? The unit is the run: record at least 3 of each, better 5, in turn. "
        "With a history, runs are compared with the newest ones kept there, and join them.",
        comparing.compare,
        [
            option(
                "runs", metavar="LOGDIR", nargs="+",
                help="folders of runs; of a folder with several runs, or with such folders, each counts",
            ),
            option("--against", metavar="LOGDIR", nargs="+", help="the runs to compare with, likewise"),
            option(
                "--history", metavar="DIR",
                help="compare with the summaries of runs in this folder, a few kB each, and add these runs "
                "to them, unless they are slower",
            ),
            option(
                "--keep", type=option_values.count, default=20, metavar="N",
                help="how many runs the history keeps, the newest (20)",
            ),
            option("--no-add", action="store_true", help="do not add these runs to the history"),
            option(
                "--accept", action="store_true",
                help="these runs are meant to be as they are: slower ones begin the history anew",
            ),
            option(
                "--paired", action="store_true",
                help="the runs were recorded in turn, each beside the one of the other side with its place",
            ),
            option(
                "--max-regression", type=option_values.part, default=0.01, metavar="PART",
                help="the least slowdown that is called one, such as 5%% (1%%)",
            ),
            fail_on("CHANGES", option_values.CHANGES, "the verdict is one of these"),
            option("--all", action="store_true", help="show all differences, however many"),
            option("--report", metavar="FILE", help="also write the comparison as one HTML page"),
            _ENGINE,
            _JSON,
            _SCHEDULER,
        ],
        "compare logs/after --against logs/before",
    ),
    Command(
        "report",
        "everything in one HTML file that opens offline",
        "The verdict with its evidence, a heatmap of rank by iteration, operations, bandwidth, overlap, "
        "compression, a timeline that zooms, the logger's own accounting, and what could not be known.",
        commands.report,
        [
            *_ROWS,
            _SCHEDULER,
            option(
                "-o", "--output", default="report.html", metavar="FILE", help="what to write (report.html)"
            ),
            EXPECTED,
            option("--open", action="store_true", help="open the page in a browser"),
        ],
    ),
    Command(
        "trace",
        "a timeline of all ranks for Perfetto",
        "Chrome JSON: a process for each rank, a lane for each thread or stream, arrows between the parts "
        "of a collective and from sends to receives.",
        commands.trace,
        [
            *_ROWS,
            option(
                "-o", "--output", default="trace.json.gz", metavar="FILE",
                help="what to write, compressed if it ends in .gz (trace.json.gz)",
            ),
        ],
        "trace logs/timing -o trace.json.gz",
    ),
    Command(
        "convert",
        "timing files as Parquet, CSV or JSON lines",
        "Converts all rows, including those of earlier runs in the same folder, sorted by rank and start. "
        "Parquet files can be read in place of the timing files.",
        commands.convert,
        [
            _LOGDIR,
            option(
                "--to", default="parquet", choices=["parquet", "csv", "jsonl"], help="the format (parquet)"
            ),
            option(
                "-o", "--output", metavar="PATH",
                help="the file to write; for Parquet a folder, unless it ends in .parquet (timings.csv, "
                "timings.jsonl, or the folder timings-parquet)",
            ),
        ],
        "convert logs/timing --to parquet -o logs/timing-parquet",
    ),
    Command(
        "import",
        "timing files from what other tools recorded",
        "Makes a folder of timing files, which all other commands read. KIND is what recorded them: "
        "kineto (traces of torch.profiler, one for each rank), inspector (dumps of NCCL Inspector), otf2 "
        "(archives of Score-P) or steps (the step times of any trainer, as JSON lines or CSV).",
        import_logs.import_logs,
        import_logs.OPTIONS,
        "import steps train.jsonl --seconds step_time --parts data,forward -o logs/imported",
    ),
    Command(
        "recover",
        "add what killed processes had recorded to their files",
        "The last records of a killed process wait in a file on its machine. Every command that reads the "
        "log folder on that machine first adds them to the timing files; this one does only that.",
        commands.recover,
        [_FOLDER],
    ),
    Command(
        "watch",
        "a live table of a run in progress",
        "Whether it runs and how fast, who is slow, who waits, whether it hangs, and what changed. For each "
        "rank: iterations and rows per second, communication, waits, open operations, drops, and how long it "
        "has been silent. Reads the ends of the files and changes nothing. Ends when all ranks have closed "
        "their files, or with Ctrl-C; a page (--serve) stays until then.",
        commands.watch,
        [
            _FOLDER,
            option(
                "--interval", type=option_values.seconds, default=2.0, metavar="S",
                help="seconds between updates (2)",
            ),
            option(
                "--window", type=option_values.seconds, default=MONITOR_WINDOW_S, metavar="S",
                help=f"seconds of the run to look at ({MONITOR_WINDOW_S:g})",
            ),
            option("--all", action="store_true", help="show all ranks, however many"),
            option("--once", action="store_true", help="look once and exit"),
            option(
                "--verdict", action="store_true",
                help="a line when somebody is found slow or hangs, when that changes, and when it is over",
            ),
            option("--json", action="store_true", help="with --verdict: each line is a JSON object"),
            option(
                "--serve", type=option_values.port, nargs="?", const=0, metavar="PORT",
                help="show it in a browser, as a page that refreshes itself, at this port (default: a free "
                "one); prints its address",
            ),
            option(
                "--address", metavar="ADDRESS",
                help="with --serve: where to listen (127.0.0.1, which only this machine reaches)",
            ),
            option("--open", action="store_true", help="with --serve: open the page in a browser"),
        ],
        defaults={"shown_as": ""},
    ),
)  # fmt: skip


# -- output ------------------------------------------------------------------------------------------


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one of this command's own lines: where in the code it arose helps nobody here."""
    say(str(message))


def _print(text: str) -> None:
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")  # names may contain what the terminal cannot encode
    if sys.stdout.isatty() and not text.startswith("{"):  # JSON is for programs
        print_in_colour(text)
    else:
        sys.stdout.write(text)
    sys.stdout.flush()
