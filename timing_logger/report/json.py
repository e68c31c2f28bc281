"""Reports for programs: strict JSON, in which unknown values are null."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict

import pandas as pd

from timing_logger.analysis import RunEnd, Summary, Verdict, WhatIf
from timing_logger.analysis.comparison.result import Comparison
from timing_logger.analysis.stragglers.facts import plain_fact
from timing_logger.report.comparison_wording import cause_sentences, verdict_of_comparison, what_is_compared
from timing_logger.report.evidence_text import sentence
from timing_logger.report.why_text import reason


def summary_json(summary: Summary, code: pd.DataFrame | None = None) -> str:
    """Return the summary as one JSON object.

    ``operations``, ``ranks``, ``spread``, ``statuses``, ``counters`` and ``account`` are the results of the
    analyses with these names, row by row. ``files`` and ``left_out`` are those of ``read_timings``, without
    the sidecars. ``different_runs`` is the reason why the files seem to be of different runs, or "". ``end``
    is what ``hang`` returns about the end of the run. ``code`` has the rows of ``sampled_code`` of the ranks
    that spent most of their time in no row, as far as these are given.
    """
    files = [{key: value for key, value in file.items() if key != "sidecar"} for file in summary.files]
    content = {
        "operations": summary.operations.to_dict("records"),
        "ranks": summary.ranks.to_dict("records"),
        "spread": summary.spread.to_dict("records"),
        "statuses": summary.statuses.to_dict("records"),
        "counters": summary.counters,
        "files": files,
        "left_out": summary.left_out,
        "different_runs": summary.different_runs,
        "end": summary.end.as_dict(),
        "account": summary.account.to_dict("records"),
        "code": _rows(code),
    }
    return _dumped(content)


def verdict_json(verdict: Verdict, windows: pd.DataFrame, code: pd.DataFrame | None = None) -> str:
    """Return one JSON object: the content of ``Verdict.as_dict``, and the rows of ``windows``.

    ``code`` has the rows of ``sampled_code`` of the ranks that the verdict names, as far as these are given.

    Each fact has its sentence, as ``text``.
    """
    told = {
        "why": verdict.why and {**plain_fact(verdict.why), "text": reason(verdict.why)},
        "evidence": [{**plain_fact(fact), "text": sentence(fact)} for fact in verdict.evidence],
    }
    return _dumped({**verdict.as_dict(), **told, "windows": windows.to_dict("records"), "code": _rows(code)})


def _rows(table: pd.DataFrame | None) -> list[dict[Hashable, object]]:
    return [] if table is None else table.to_dict("records")


def what_if_json(answer: WhatIf | None, best: pd.DataFrame, transfers: pd.DataFrame) -> str:
    """Return one JSON object: ``answer``, what was asked for, or null; and the rows of both tables.

    ``fixes`` of the answer are texts, as ``--fix`` takes them.
    """
    why = answer and answer.why_unjudged
    told = answer and {
        **asdict(answer),
        "fixes": [str(fix) for fix in answer.fixes],
        "why_unjudged": why and {**plain_fact(why), "text": reason(why)},
    }
    return _dumped({
        "answer": told, "repairs": best.to_dict("records"), "transfers": transfers.to_dict("records"),
    })  # fmt: skip


def hang_json(end: RunEnd) -> str:
    """Return one JSON object with the content of ``RunEnd.as_dict``."""
    return _dumped(end.as_dict())


def rows_json(**tables: pd.DataFrame) -> str:
    """Return one JSON object with the rows of each table under the table's name."""
    return _dumped({name: table.to_dict("records") for name, table in tables.items()})


def comparison_json(found: Comparison, unusable: Sequence[str] = ()) -> str:
    """Return one JSON object: the content of ``Comparison.as_dict``, with sentences as ``text``.

    ``unusable`` has what could not be used of a history, in words.
    """
    text = {"text": [verdict_of_comparison(found), *cause_sentences(found), *what_is_compared(found)]}
    return _dumped({**found.as_dict(), **text, "unusable": list(unusable)})


def strict_json(value: object) -> str:
    """Return a value as strict JSON in one line: unknown figures are null."""
    return json.dumps(_strict(value), allow_nan=False)


def _dumped(content: Mapping[str, object]) -> str:
    return json.dumps(_strict(content), indent=1, allow_nan=False) + "\n"


def _strict(value: object) -> object:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if type(value).__name__ == "NAType" else value  # pandas.NA, without importing pandas
