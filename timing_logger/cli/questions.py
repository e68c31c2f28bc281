"""The table of questions: what each command asks of the chosen rows, and how the answer is printed."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from timing_logger.cli import option_values
from timing_logger.cli.option_values import HANG, UNJUDGED
from timing_logger.cli.queries import (
    Answer,
    code_of,
    run_query,
    run_query_beside_host,
    run_query_on,
    shown_of,
    terminal_width,
)
from timing_logger.schema.timing_files import KEYS

BAD_NEWS = 1
"""The exit code for a verdict that ``--fail-on`` names."""

Option = tuple[tuple[str, ...], Mapping[str, Any]]
"""The names of an argument, and the further ones of ``ArgumentParser.add_argument``."""


def option(*names: str, **further: Any) -> Option:
    """Return an argument of a command as ``ArgumentParser.add_argument`` takes it."""
    return names, further


@dataclass(frozen=True)
class Command:
    """A command of the command line.

    Attributes:
        name: the command.
        short: what it says or does, in the list of commands.
        long: the same, in its own help.
        answer: does it, and returns what to print; of a question it asks the analyses.
        options: its arguments; of a question those that the others have not.
        example: how it may be called; "" for its name and a folder.
        of_iterations: whether iterations can be selected, where it is a question.
        defaults: what its parser sets beside the values of the options.
    """

    name: str
    short: str
    long: str
    answer: Callable[[Namespace], Answer]
    options: Sequence[Option] = ()
    example: str = ""
    of_iterations: bool = True
    defaults: Mapping[str, object] = field(default_factory=dict)


def fail_on(metavar: str, known: Sequence[str], short: str) -> Option:
    """Return the option for what a command fails on."""
    said = f"exit with {BAD_NEWS} if {short}: any of {', '.join(known)}; several with commas"
    return option("--fail-on", type=option_values.some_of(known), metavar=metavar, default=(), help=said)


def _all(what: str) -> Option:
    return option("--all", action="store_true", help=f"show all {what}, however many")


EXPECTED = option(
    "--expected", metavar="FILE",
    help="also the share of what a benchmark reached, by its output: nccl-tests, OSU or IMB",
)  # fmt: skip


# -- how each is answered --------------------------------------------------------------------------------
# What analyses and reports need is imported where it is asked for: help and completion stay quick.


def _summary(arguments: Namespace) -> Answer:
    from timing_logger.analysis.verdict.overview import OVERVIEW
    from timing_logger.analysis.verdict.windows import SUMMARY_AND_STEP
    from timing_logger.report import summary_json, summary_text
    from timing_logger.report.code import code_out_of_rows, ranks_out_of_rows

    if arguments.by:
        return _totals(arguments)
    if arguments.json:
        result = run_query(arguments, OVERVIEW)
        asked = ranks_out_of_rows(result.answer.account)
        return Answer(summary_json(result.answer, code_of(arguments, asked, result.query)))
    result = run_query(arguments, SUMMARY_AND_STEP)
    summary, named, step = result.answer
    drawn = step if result.tells("instants") else None
    shown = drawn and shown_of(arguments, drawn, named, result.query)
    shares = ranks_out_of_rows(summary.account)
    code = code_out_of_rows(shares, code_of(arguments, shares, result.query))
    text = summary_text(summary, terminal_width(), step=shown, code=code, everything=arguments.all)
    return Answer(text + result.how)


def _totals(arguments: Namespace) -> Answer:
    from timing_logger.analysis.rows.summarize import totals_by
    from timing_logger.report import rows_json, totals_text

    result = run_query(arguments, totals_by(arguments.by))
    if arguments.json:
        return Answer(rows_json(not_told=result.not_told("summary --by"), operations=result.answer))
    text = totals_text(result.answer, arguments.by, terminal_width(), everything=arguments.all)
    return Answer(text + result.not_told_text("summary --by") + result.how)


def _stragglers(arguments: Namespace) -> Answer:
    from timing_logger.analysis.verdict.windows import stragglers_and_step
    from timing_logger.report import stragglers_text, verdict_json
    from timing_logger.report.code import code_of_verdict, ranks_to_ask_about

    result = run_query_beside_host(arguments, stragglers_and_step)
    verdict, slow, step = result.answer
    said = {verdict.verdict if verdict.judged else UNJUDGED, *({HANG} if verdict.end.hangs else ())}
    exit_code = BAD_NEWS if said & {*arguments.fail_on} else 0
    code = code_of(arguments, ranks_to_ask_about(verdict), result.query)
    if arguments.json:
        return Answer(verdict_json(verdict, slow, code, not_told=result.not_told("stragglers")), exit_code)
    drawn = step if result.tells("instants") else None
    shown = drawn and shown_of(arguments, drawn, verdict.ranks_to_look_at, result.query)
    text = stragglers_text(
        verdict, slow, terminal_width(), step=shown, code=code_of_verdict(verdict, code), why=arguments.why,
        everything=arguments.all,
    )  # fmt: skip
    return Answer(text + result.not_told_text("stragglers") + result.how, exit_code)


def _hang(arguments: Namespace) -> Answer:
    from timing_logger.analysis.hangs.diagnosis import hang_as_of
    from timing_logger.report import hang_json, hang_text

    result = run_query(arguments, hang_as_of(time.time()))  # its files may still be written
    end = result.answer
    exit_code = BAD_NEWS if end.state in arguments.fail_on else 0
    if arguments.json:
        return Answer(hang_json(end, not_told=result.not_told("hang")), exit_code)
    text = hang_text(end, terminal_width(), everything=arguments.all)
    return Answer(text + result.not_told_text("hang") + result.how, exit_code)


def _waits(arguments: Namespace) -> Answer:
    from timing_logger.analysis.accounting.account import ACCOUNT
    from timing_logger.analysis.collectives.messages import MESSAGES
    from timing_logger.analysis.collectives.waits import WAITS
    from timing_logger.report import account_text, rows_json, waits_text

    result = run_query(arguments, ACCOUNT, WAITS, MESSAGES)
    account, (totals, states, flawed), messages = result.answers
    if arguments.json:
        return Answer(
            rows_json(
                not_told=result.not_told("waits"), account=account, waits=totals, messages=messages,
                flawed_collectives=flawed,
            )
        )  # fmt: skip
    width = terminal_width()
    by_operation = waits_text(totals, messages, states, width, everything=arguments.all)
    said = [account_text(account, width, everything=arguments.all), by_operation]
    lacking = result.not_told_text("waits")
    return Answer("\n".join(filter(None, said)) + result.mixture + result.clocks + lacking + result.how)


def _bandwidth(arguments: Namespace) -> Answer:
    from timing_logger.analysis.collectives.bandwidth import BANDWIDTH, with_expectation
    from timing_logger.importing.benchmarks import read_benchmark
    from timing_logger.report import bandwidth_text, rows_json

    benchmark = read_benchmark(arguments.expected) if arguments.expected else None
    result = run_query(arguments, BANDWIDTH)
    found = with_expectation(result.answer, benchmark) if benchmark else result.answer
    if arguments.json:
        return Answer(rows_json(not_told=result.not_told("bandwidth"), bandwidth=found))
    text = bandwidth_text(
        found, terminal_width(), everything=arguments.all, benchmark=benchmark.name if benchmark else ""
    )
    return Answer(text + result.mixture + result.not_told_text("bandwidth") + result.how)


def _overlap(arguments: Namespace) -> Answer:
    from timing_logger.analysis.rows.overlap import EFFICIENCIES, OVERLAP, summarize_overlap
    from timing_logger.report import overlap_text, rows_json

    result = run_query(arguments, OVERLAP, EFFICIENCIES)
    steps, whole = result.answers
    found = steps if arguments.by == "iteration" else summarize_overlap(steps)
    if arguments.json:
        return Answer(rows_json(not_told=result.not_told("overlap"), overlap=found, efficiencies=whole))
    text = overlap_text(found, whole, terminal_width(), everything=arguments.all)
    return Answer(text + result.mixture + result.not_told_text("overlap") + result.how)


def _compression(arguments: Namespace) -> Answer:
    from timing_logger.analysis.collectives.compression import DENSE_TIMES, compression_against
    from timing_logger.report import compression_text, rows_json

    dense = run_query_on(arguments.dense, arguments, DENSE_TIMES) if arguments.dense else None
    result = run_query(arguments, compression_against(dense))
    if arguments.json:
        return Answer(rows_json(not_told=result.not_told("compression"), compression=result.answer))
    text = compression_text(result.answer, terminal_width())
    return Answer(text + result.not_told_text("compression") + result.how)


def _what_if(arguments: Namespace) -> Answer:
    from functools import partial

    from timing_logger.analysis.counterfactual.what_if import repaired_beside
    from timing_logger.report import what_if_json, what_if_text

    result = run_query_beside_host(arguments, partial(repaired_beside, arguments.fix))
    answer, best, transfers = result.answer
    if arguments.json:
        return Answer(what_if_json(answer, best, transfers, not_told=result.not_told("what-if")))
    text = what_if_text(answer, best, transfers, terminal_width())
    return Answer(text + result.mixture + result.not_told_text("what-if") + result.how)


# -- the table -------------------------------------------------------------------------------------------

QUESTIONS = (
    Command(
        "summary",
        "operations by rank, totals by rank, files and counters",
        "Per operation and rank: count, bytes, median and 99th percentile, total and share of wall time. "
        "Per rank: totals. Per file: rows read, and what its logger counted.",
        _summary,
        [
            option(
                "--by", type=option_values.keys, metavar="KEYS",
                help=f"only totals, by any of {', '.join(KEYS)}; several with commas",
            ),
            _all("operations, ranks and files"),
        ],
    ),
    Command(
        "stragglers",
        "which rank is slow, in which operation, since when and at what cost, if any",
        "The verdict, its evidence, and the iterations in which a rank was slower than its peers. Ranks "
        "with the same labels are peers.",
        _stragglers,
        [
            fail_on("VERDICTS", option_values.VERDICTS, "the verdict is one of these"),
            option(
                "--why", action="store_true",
                help="add the conditions that decided, with their limits, and each number with its reason",
            ),
            _all("suspects and windows"),
        ],
    ),
    Command(
        "hang",
        "did the run end? If not: which ranks hang, in what, and which never got there",
        "For each collective that did not end: which ranks are in it and for how long, which never entered "
        "it and what they did last, and whether ranks disagree. Also messages without a partner, and "
        "processes that are gone.",
        _hang,
        [fail_on("ENDS", option_values.ENDS, "the run ended like this"), _all("ranks")],
        of_iterations=False,  # the end of a run is in its last
    ),
    Command(
        "waits",
        "who waits for whom, and what each rank does with its time",
        "Per rank: the parts of its wall time, and for whom it waited. Per operation and rank: time waited "
        "for the last to arrive, how far arrivals lie apart, the transfer itself, and how often the rank was "
        "the last.",
        _waits,
        [_all("ranks")],
    ),
    Command(
        "bandwidth",
        "algorithm and bus bandwidth by operation, group and size",
        "Per operation, group and class of sizes: bandwidths as nccl-tests defines them, with and without "
        "the wait for the last rank.",
        _bandwidth,
        [_all("groups"), EXPECTED],
    ),
    Command(
        "overlap",
        "how much communication is hidden behind computing",
        "Per rank: communication that was exposed and hidden, own work, waits and copies.",
        _overlap,
        [
            option(
                "--by", choices=["rank", "iteration"], default="rank",
                help="one row per rank, with medians (default), or per rank and iteration",
            ),
            _all("ranks"),
        ],
    ),
    Command(
        "what-if",
        "how long the run would have taken with something repaired",
        "Plays the run again: with a rank, a host, an operation, a cause, transfers or work as usual. "
        "Always the single repairs that gain most, and what transfers take by their size.",
        _what_if,
        [
            option(
                "--fix", type=option_values.fix, action="append", default=[], metavar="WHAT",
                help="what is repaired: rank=2, host=node9, operation=DATA, without=SAVE, cause=GC, "
                "transfers=usual, work=even, bytes=0.5, bucket=25MB, group=4; several --fix are repaired "
                "together",
            ),
        ],
        "what-if logs/timing --fix rank=2",
    ),
    Command(
        "compression",
        "does compression pay off, layer by layer",
        "For each compressed layer: how long it takes, how long an uncompressed allreduce of its size would "
        "take by those measured, bytes saved, and the break-even point.",
        _compression,
        [
            option(
                "--dense", metavar="LOGDIR",
                help="take the times of uncompressed allreduces from another run",
            ),
        ],
    ),
)  # fmt: skip
"""The commands that ask analyses of the chosen rows and print the answer, in the order of the help."""
