"""Sentences about what is remarkable or missing in a folder of timings, and about what an import made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import pandas as pd

from timing_logger.analysis.rows.files import File, FileCounters, not_told, sidecar_of
from timing_logger.reading.file_problems import parts_trouble, problems_of, schema_trouble, uncounted
from timing_logger.reading.named_ranks import capital, lacking, lacking_in_words, named_ranks
from timing_logger.report._limits import MOST_LINES
from timing_logger.schema.record import escape_text
from timing_logger.schema.sidecar import NOT_TOLD
from timing_logger.words.not_told import not_told_sentences
from timing_logger.words.units import count, listed, or_unknown, page, paragraph, quoted, size, yes_or_no

if TYPE_CHECKING:
    from timing_logger.analysis.verdict.overview import Summary
    from timing_logger.importing.imported import Imported

_MOST_REASONS = 5

_AboutFile: TypeAlias = "tuple[str, str]"
"""The name of a file, and a sentence on it."""


def is_complete(counters: FileCounters) -> bool:
    """Tell whether a file was closed and has every record that its logger accepted."""
    is_whole = bool(counters["closed"]) and counters["agrees"] is not False
    return is_whole and not counters["dropped"] and not counters["pending"]


HEADS_OF_FILE = ("file", "rows", "size", "accepted", "written", "dropped", "pending", "closed")
"""What stands above the cells of :func:`cells_of_file`."""


def cells_of_file(file: File, counters: FileCounters) -> list[str]:
    """Return what tables say of a file: its name, rows and size, and what its logger counted."""
    counted = counters["accepted"], counters["written"], counters["dropped"], counters["pending"]
    read = escape_text(counters["file"]), str(counters["rows"]), size(file["bytes"])
    return [*read, *map(or_unknown, counted), yes_or_no(counters["closed"])]


def diagnostics(summary: Summary, *, everything: bool = True) -> Iterable[str]:
    """Yield a sentence for each kind of row that did not end well, incomplete file, and lost record.

    Args:
        summary: what ``analysis.overview`` returns.
        everything: whether each file has sentences of its own, however many there are.
    """
    yield from on_different_runs(summary.different_runs)
    yield from not_told_sentences("summary", not_told(summary.files))
    yield from on_left_out_of_imports(summary.files)
    lacks = lacking(summary.files)
    for said in filter(None, (lacking_in_words(lacks), lacking_in_words(lacks, by_choice=True))):
        yield f"{capital(said)}."
    for row in summary.statuses.to_dict("records"):
        rows = f"{row['count']} of {count(row['of'], 'row')}"
        yield f"{escape_text(row['operation'])}: {rows} with the status {escape_text(row['status'])}."
    yield from _told(list(_on_files(summary)), everything)


def _on_files(summary: Summary) -> Iterable[_AboutFile]:
    for file, counters in zip(summary.files, summary.counters, strict=True):
        for sentence in (*_on_file(file), *_on_counters(counters)):
            yield escape_text(counters["file"]), sentence
    yield from _problems(summary.files)
    for left_out in summary.left_out:
        yield escape_text(Path(left_out["path"]).name), f"left out, {escape_text(left_out['reason'])}."


def _told(said: Sequence[_AboutFile], everything: bool) -> Iterable[str]:
    """Yield what is said of files; if that is much, the same of several files once, and only so many."""
    if everything or len(said) <= MOST_LINES:
        yield from (f"{name}: {sentence}" for name, sentence in said)
        return
    files_of: dict[str, list[str]] = {}
    for name, sentence in said:
        files_of.setdefault(sentence, []).append(name)
    most_first = sorted(files_of.items(), key=lambda item: -len(item[1]))
    for sentence, names in most_first[:MOST_LINES]:
        whose = names[0] if len(names) == 1 else f"{len(names):,} files, such as {names[0]}"
        yield f"{whose}: {sentence}"
    if rest := most_first[MOST_LINES:]:
        n_files = len({name for _, names in rest for name in names})
        yield (
            f"{count(len(rest), 'more sentence')} of this kind, on {count(n_files, 'file')}, are left out. "
            "timing-logger summary --all has all."
        )


def on_different_runs(why: str) -> Iterable[str]:
    """Yield the warning that files are not of one run; nothing if ``why`` is empty.

    Args:
        why: the reason that ``analysis`` found, or "".
    """
    if why:
        yield (
            f"These files look like those of different runs: {escape_text(why)}. What compares ranks then "
            "compares what has nothing in common."
        )


def on_left_out_of_imports(files: Iterable[File]) -> Iterable[str]:
    """Yield a sentence on the records that could not be imported, if there are any."""
    counts: Counter[str] = Counter()
    for file in files:
        imported = sidecar_of(file).get("imported") or {}
        counts.update(cast("Mapping[str, int]", imported.get("left_out") or {}))
    yield from filter(None, [left_out_in_words(counts)])


def left_out_in_words(left_out: Mapping[str, int]) -> str:
    """Return in a sentence how many records could not be imported, and why; "" if there are none."""
    if not left_out:
        return ""
    most_first = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{n:,} for {escape_text(why)}" for why, n in most_first[:_MOST_REASONS]]
    if rest := sum(n for _, n in most_first[_MOST_REASONS:]):
        told.append(f"{rest:,} for other reasons")
    total = sum(left_out.values())
    were = "was" if total == 1 else "were"
    return f"{count(total, 'record')} {were} left out of the import: {'; '.join(told)}."


def on_overlap(overlap: pd.DataFrame) -> Iterable[str]:
    """Yield a sentence for each kind of figure of ``analysis.overlap`` that is not known, with the reason."""
    known = overlap[overlap["communication_ms"].notna()]
    if len(without_work := known[known["compute_ms"].isna()]):
        their = "its" if without_work["rank"].nunique() == 1 else "their"
        yield (
            f"{_who_log(without_work)} no work of {their} own "
            "(FORWARD, BACKWARD, DATA, ...), so what was hidden behind it is not known: communication is "
            "exposed as long as somebody was blocked on it."
        )
    if len(unseen := known[known["exposed_ms"].isna()]):
        yield (
            f"{_who_log(unseen)} neither own work nor who waits for the "
            "communication in the background, as no WAIT row does over NCCL: how much of it is exposed is "
            "not known."
        )


def _who_log(rows: pd.DataFrame) -> str:
    return f"{capital(named_ranks(rows['rank']))} {'logs' if rows['rank'].nunique() == 1 else 'log'}"


def on_problems(files: Iterable[File]) -> Iterable[str]:
    """Yield a sentence for each part of files and sidecars that cannot be used or trusted.

    Args:
        files: ``attrs["files"]`` of the table of timings.
    """
    return _told(list(_problems(files)), everything=False)


def _problems(files: Iterable[File]) -> Iterable[_AboutFile]:
    for file in files:
        for problem in filter(None, [schema_trouble(file), *problems_of(file), *uncounted(file)]):
            yield escape_text(Path(file["path"]).name), f"{escape_text(problem)}."


def _on_file(file: File) -> Iterable[str]:
    if file["cut"]:
        yield f"its last line is not finished and was cut: {quoted(file['cut'])}."
    for trouble in parts_trouble(file):
        yield f"{escape_text(trouble)}."
    if file["bad_lines"]:
        lines = count(file["bad_lines"], "damaged line")
        yield f"{lines} skipped, such as {quoted(file['bad_examples'][0])}."


def _on_counters(counters: FileCounters) -> Iterable[str]:
    if not counters["has_sidecar"]:
        yield "no sidecar, so what was accepted or dropped is not known."
    if counters["agrees"] is False:
        when = "" if counters["closed"] else " when its sidecar was last written; it was not closed"
        rows = count(counters["rows"], "row")
        yield f"{rows} read, but its logger had written {counters['written']}{when}."
    if counters["dropped"]:
        yield f"{count(counters['dropped'], 'record')} of {counters['accepted']} dropped, and in no file."


def imported_text(imported: Imported, kind: str, width: int) -> str:
    """Return the report on an import."""
    of_ranks = count(len(imported.ranks), "rank")
    said = [f"{escape_text(str(imported.folder))}: {imported.rows:,} rows of {of_ranks}, from {kind}."]
    if imported.not_told:
        said.append(f"The source does not tell {listed([NOT_TOLD[name] for name in imported.not_told])}.")
    said += imported.notes
    return page(*paragraph(width, *filter(None, [*said, left_out_in_words(imported.left_out)])))
