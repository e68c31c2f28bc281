"""``compare``: summarizes the runs of both sides, compares them, in words and as a page; keeps a history."""

from __future__ import annotations

import warnings
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from timing_logger.cli.commands import size_of
from timing_logger.cli.queries import Answer, cluster_of, terminal_width
from timing_logger.cli.questions import BAD_NEWS
from timing_logger.errors import ConfigurationError
from timing_logger.process.progress import begin

if TYPE_CHECKING:
    from timing_logger.results.comparison import Comparison
    from timing_logger.results.run_summary import RunSummary


def compare(arguments: Namespace) -> Answer:
    """Compare runs with others, or with a history, which they join unless they are slower."""
    _check(arguments)
    runs = _summaries(arguments.runs, arguments)
    if arguments.history is not None:
        return _with_history(runs, Path(arguments.history), arguments)
    found = _compared(runs, _summaries(arguments.against, arguments), arguments)
    return _answer(found, arguments, _paged(found, arguments))


def _check(arguments: Namespace) -> None:
    """Check that it is said with what to compare, once."""
    if bool(arguments.against) == (arguments.history is not None):
        raise ConfigurationError(
            "compare: say with what to compare: --against LOGDIR..., or --history DIR; not both."
        )
    if arguments.history is None and (arguments.accept or arguments.no_add):
        raise ConfigurationError("--accept and --no-add are about a history: give --history DIR, too.")
    if arguments.accept and arguments.no_add:
        raise ConfigurationError("--accept adds the runs, and --no-add does not: leave one away.")
    if arguments.history is not None and arguments.paired:
        raise ConfigurationError("--paired is for runs recorded in turn, which those of a history are not.")


def _summaries(paths: list[str], arguments: Namespace) -> list[RunSummary]:
    from timing_logger.engine.run_summaries import summaries_of

    with cluster_of(arguments) as workers:
        found = summaries_of(
            map(Path, paths), engine=arguments.engine, cluster=workers,
            warn=lambda said: warnings.warn(said, stacklevel=2),
        )  # fmt: skip
    return [one.summary for one in found]


def _compared(
    runs: list[RunSummary], against: list[RunSummary], arguments: Namespace, *, in_batches: bool = False
) -> Comparison:
    from timing_logger.analysis.comparison.compare import compare_runs

    return compare_runs(
        runs, against, max_regression=arguments.max_regression, paired=arguments.paired, in_batches=in_batches
    )


def _paged(found: Comparison, arguments: Namespace, unusable: tuple[str, ...] = ()) -> str:
    """Write the page, if one is asked for, and return what is said of it."""
    if not arguments.report:
        return ""
    from timing_logger.report.html import write_comparison

    begin("writing", 1)
    write_comparison(found, arguments.report, unusable=unusable)
    return f"\n{arguments.report}: {size_of(arguments.report)}. It opens in a browser, also offline.\n"


def _answer(
    found: Comparison, arguments: Namespace, notes: str = "", unusable: tuple[str, ...] = ()
) -> Answer:
    from timing_logger.report import comparison_json, comparison_text

    exit_code = BAD_NEWS if found.verdict in arguments.fail_on else 0
    if arguments.json:
        return Answer(comparison_json(found, unusable), exit_code)
    return Answer(comparison_text(found, terminal_width(), everything=arguments.all) + notes, exit_code)


# -- a history ---------------------------------------------------------------------------------------


def _with_history(runs: list[RunSummary], folder: Path, arguments: Namespace) -> Answer:
    from timing_logger.engine.run_summaries import add_to_history, read_history
    from timing_logger.report.comparison import history_begun_text, history_text

    history = read_history(folder)
    for unusable in history.unusable:
        warnings.warn(unusable, stacklevel=2)
    here = {run.identity for run in runs} - {None}
    earlier = [run for run in history.runs if run.identity not in here]  # as where a job is tried again
    found = _compared(runs, earlier, arguments, in_batches=True) if earlier else None
    known = {run.identity for run in history.runs} - {None}
    added = [run for run in runs if run.identity not in known]
    page = _paged(found, arguments, tuple(history.unusable)) if found else ""  # before the history changes
    is_slower = found is not None and found.verdict == "regressed"
    adds = not arguments.no_add and (arguments.accept or not is_slower)
    kept = len(history.runs)
    if adds:
        kept = add_to_history(folder, added, arguments.keep, anew=arguments.accept and is_slower)
    if found is None:
        if arguments.report:
            warnings.warn(
                f"{arguments.report} is not written: there is nothing to compare with.", stacklevel=2
            )
        return Answer(history_begun_text(str(folder), len(added), as_json=arguments.json, adds=adds))
    notes = history_text(str(folder), len(added), kept, adds=adds, is_slower=is_slower)
    return _answer(found, arguments, notes + page, tuple(history.unusable))
