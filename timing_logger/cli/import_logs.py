"""The command ``import``: its options, and which of them are for which kind."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from timing_logger.cli import option_values
from timing_logger.cli.ctrl_c import noted
from timing_logger.cli.queries import Answer, terminal_width
from timing_logger.cli.questions import Option, option
from timing_logger.cli.stderr import say
from timing_logger.errors import ConfigurationError

if TYPE_CHECKING:
    from timing_logger.importing.following import Until
    from timing_logger.importing.imported import Imported


def _steps(arguments: Namespace) -> Imported:
    from timing_logger.importing.step_columns import StepColumns
    from timing_logger.importing.steps import follow_steps, import_steps

    given = _given(arguments)
    if "parts" in given:
        given["parts"] = [name.strip() for name in given["parts"].split(",") if name.strip()]
    columns = StepColumns(**given)
    if not arguments.follow:
        return import_steps(arguments.paths, arguments.output, columns)
    return _followed(arguments, partial(follow_steps, arguments.paths, arguments.output, columns))


def _given(arguments: Namespace) -> dict[str, Any]:
    """Return the options of ``steps`` that were given."""
    return {name: value for name in _OF_STEPS if (value := getattr(arguments, name)) not in (None, False)}


def _followed(arguments: Namespace, follow: Callable[[Until, Callable[[str], None]], Imported]) -> Imported:
    """Follow sources until they are idle, or Ctrl-C or SIGTERM comes."""
    from timing_logger.importing.following import Until

    until_idle = f", or until nothing is added for {arguments.until_idle:g} s" if arguments.until_idle else ""
    say(
        f"following {' '.join(arguments.paths)} until Ctrl-C{until_idle}. Meanwhile: timing-logger watch "
        f"{arguments.output}"
    )
    with noted() as is_stopped:
        return follow(Until(arguments.until_idle, is_stopped), say)


def _kineto(arguments: Namespace) -> Imported:
    from timing_logger.importing.kineto import import_kineto

    return import_kineto(arguments.paths, arguments.output)


def _inspector(arguments: Namespace) -> Imported:
    from timing_logger.importing.inspector import follow_inspector, import_inspector

    if not arguments.follow:
        return import_inspector(arguments.paths, arguments.output)
    return _followed(arguments, partial(follow_inspector, arguments.paths, arguments.output))


def _otf2(arguments: Namespace) -> Imported:
    from timing_logger.importing.otf2 import import_otf2

    if len(arguments.paths) > 1:
        raise ConfigurationError("import otf2 takes one archive. Name its anchor file, such as traces.otf2.")
    return import_otf2(arguments.paths[0], arguments.output)


_OF_STEPS = (
    "rank", "rank_in_name", "step", "epoch", "seconds", "ms", "parts", "rest", "time", "time_is_start",
    "work",
)  # fmt: skip
"""The options of ``steps``, by the names of the fields of ``StepColumns``."""

_KINDS: Mapping[str, Callable[[Namespace], Imported]] = {
    "kineto": _kineto,
    "inspector": _inspector,
    "otf2": _otf2,
    "steps": _steps,
}

_COMPLETE: Mapping[str, str] = {
    "kineto": "torch.profiler writes a trace at its end",
    "otf2": "Score-P writes an archive at the end of the run",
}
"""Why files of some kinds do not grow."""

OPTIONS: tuple[Option, ...] = (
    option("kind", metavar="KIND", choices=[*_KINDS], help=f"what recorded them: {', '.join(_KINDS)}"),
    option("paths", metavar="PATH", nargs="+", help="files, folders or quoted patterns; also .gz and .zst"),
    option(
        "-o", "--output", metavar="LOGDIR", required=True,
        help="the folder to make; it may be there if it is empty"
    ),
    option(
        "--follow", action="store_true",
        help="inspector, steps: go on while the files grow and new ones come, until Ctrl-C or SIGTERM",
    ),
    option(
        "--until-idle", type=option_values.seconds, metavar="S",
        help="with --follow: end once nothing was added for S seconds",
    ),
    option("--rank", metavar="COL", help="steps: the column of the rank (rank); else the file name tells it"),
    option(
        "--rank-in-name", metavar="REGEX",
        help="steps: without such a column, what the rank is in a file name: a pattern with one group",
    ),
    option("--step", metavar="COL", help="steps: the column of the step's number (step)"),
    option("--epoch", metavar="COL", help="steps: the column of the epoch"),
    option("--seconds", metavar="COL", help="steps: the column of the step's duration, in seconds"),
    option("--ms", metavar="COL", help="steps: the same, in milliseconds"),
    option(
        "--parts", metavar="COL,...",
        help="steps: columns of parts of the step, one after the other, in the unit of the step",
    ),
    option(
        "--rest", metavar="NAME", help="steps: make what no part covers an operation of this name, too"
    ),
    option("--time", metavar="COL", help="steps: the column of the instant at the step's end"),
    option("--time-is-start", action="store_true", help="steps: that is the instant at its start"),
    option("--work", metavar="COL", help="steps: the column of what the step processed, such as tokens"),
)  # fmt: skip


def import_logs(arguments: Namespace) -> Answer:
    """Make timing files from what another tool recorded, and say what could not be used."""
    from timing_logger.report._diagnostics import imported_text

    if arguments.kind != "steps":
        for name in _given(arguments):
            shown = name.replace("_", "-")
            raise ConfigurationError(
                f"--{shown} is for import steps, and this is {arguments.kind}. Leave it away."
            )
    _refuse_to_follow(arguments)
    made = _KINDS[arguments.kind](arguments)
    return Answer(imported_text(made, arguments.kind, terminal_width()))


def _refuse_to_follow(arguments: Namespace) -> None:
    if arguments.until_idle is not None and not arguments.follow:
        raise ConfigurationError("--until-idle says when --follow ends: give that, too.")
    if arguments.follow and arguments.kind in _COMPLETE:
        raise ConfigurationError(
            f"--follow is for files that grow, and {_COMPLETE[arguments.kind]}. Import them without --follow "
            "when they are there."
        )
