"""Reports for programs: strict JSON, in which unknown values are null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

import pandas as pd

from timing_logger.analysis.rows.files import not_told as not_told_by
from timing_logger.results.facts import plain_fact
from timing_logger.words.comparison import cause_sentences, verdict_of_comparison, what_is_compared
from timing_logger.words.evidence import sentence
from timing_logger.words.not_told import not_told_values, reason

if TYPE_CHECKING:
    from timing_logger.analysis.verdict.overview import Summary
    from timing_logger.results.comparison import Comparison
    from timing_logger.results.run_end import RunEnd
    from timing_logger.results.verdict import Verdict
    from timing_logger.results.what_if import WhatIf

NotToldValues: TypeAlias = "list[dict[str, str]]"


def summary_json(summary: Summary, code: pd.DataFrame | None = None) -> str:
    """Return the summary as one JSON object.

    ``operations``, ``ranks``, ``spread``, ``statuses``, ``counters`` and ``account`` are the results of the
    analyses with these names, row by row. ``files`` and ``left_out`` are those of ``read_timings``, without
    the sidecars. ``different_runs`` is the reason why the files seem to be of different runs, or "". ``end``
    is what ``hang`` returns about the end of the run. ``code`` has the rows of ``sampled_code`` of the ranks
    that spent most of their time in no row, as far as these are given. ``not_told`` has what the source of an
    imported run does not tell, as of :func:`rows_json`.
    """
    files = [{key: value for key, value in file.items() if key != "sidecar"} for file in summary.files]
    content = {
        **{name: getattr(summary, name) for name in ("operations", "ranks", "spread", "statuses")},
        "counters": summary.counters,
        "files": files,
        "left_out": summary.left_out,
        "different_runs": summary.different_runs,
        "end": summary.end.as_dict(),
        "account": summary.account,
        "code": [] if code is None else code,
        "not_told": not_told_values("summary", not_told_by(summary.files)),
    }
    return _dumped(content)


def verdict_json(
    verdict: Verdict,
    windows: pd.DataFrame,
    code: pd.DataFrame | None = None,
    *,
    not_told: NotToldValues | None = None,
) -> str:
    """Return one JSON object: the content of ``Verdict.as_dict``, and the rows of ``windows``.

    ``code`` has the rows of ``sampled_code`` of the ranks that the verdict names, as far as these are given.

    Each fact has its sentence, as ``text``. ``not_told`` is as of :func:`rows_json`.
    """
    told = {
        "why": verdict.why and {**plain_fact(verdict.why), "text": reason(verdict.why)},
        "evidence": [{**plain_fact(fact), "text": sentence(fact)} for fact in verdict.evidence],
    }
    content = {**verdict.as_dict(), **told, "windows": windows, "code": [] if code is None else code}
    return _dumped({**content, **_lacking(not_told)})


def _lacking(not_told: NotToldValues | None) -> dict[str, NotToldValues]:
    return {} if not_told is None else {"not_told": not_told}


def what_if_json(
    answer: WhatIf | None,
    best: pd.DataFrame,
    transfers: pd.DataFrame,
    *,
    not_told: NotToldValues | None = None,
) -> str:
    """Return one JSON object: ``answer``, what was asked for, or null; and the rows of both tables.

    ``fixes`` of the answer are texts, as ``--fix`` takes them. ``not_told`` is as of :func:`rows_json`.
    """
    why = answer and answer.why_unjudged
    told = answer and {
        **asdict(answer),
        "fixes": [str(fix) for fix in answer.fixes],
        "why_unjudged": why and {**plain_fact(why), "text": reason(why)},
    }
    return _dumped({"answer": told, "repairs": best, "transfers": transfers, **_lacking(not_told)})


def hang_json(end: RunEnd, *, not_told: NotToldValues | None = None) -> str:
    """Return one JSON object with the content of ``RunEnd.as_dict``; ``not_told`` as of :func:`rows_json`."""
    return _dumped({**end.as_dict(), **_lacking(not_told)})


def rows_json(*, not_told: NotToldValues | None = None, **tables: pd.DataFrame) -> str:
    """Return one JSON object with the rows of each table under the table's name.

    Args:
        not_told: what the source of an imported run does not tell and the answer would need, as
            :func:`not_told_values` returns it; None to leave it away.
        tables: by their names.
    """
    return _dumped({**tables, **_lacking(not_told)})


def comparison_json(found: Comparison, unusable: Sequence[str] = ()) -> str:
    """Return one JSON object: the content of ``Comparison.as_dict``, with sentences as ``text``.

    ``unusable`` has what could not be used of a history, in words. ``not_told`` has what the sources of
    imported runs do not tell, as of :func:`rows_json`.
    """
    lacking = not_told_values("compare", found.not_told)
    text = {"text": [verdict_of_comparison(found), *cause_sentences(found), *what_is_compared(found)]}
    return _dumped({**found.as_dict(), **text, "unusable": list(unusable), "not_told": lacking})


def strict_json(value: object) -> str:
    """Return a value as strict JSON in one line: unknown figures are null."""
    return json.dumps(_strict(value), allow_nan=False)


def _dumped(content: Mapping[str, object]) -> str:
    return json.dumps(_strict(content), indent=1, allow_nan=False) + "\n"


def _strict(value: object) -> object:
    if isinstance(value, pd.DataFrame):
        value = value.to_dict("records")
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    is_unknown = value is pd.NA or (isinstance(value, float) and not math.isfinite(value))
    return None if is_unknown else value
