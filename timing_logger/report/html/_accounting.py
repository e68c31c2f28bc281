"""The logger's counters and clocks, and what the page cannot show."""

from __future__ import annotations

import math
from collections.abc import Iterable

from timing_logger.analysis.rows.files import File, FileCounters, SidecarContent, sidecar_of
from timing_logger.analysis.verdict.overview import Summary
from timing_logger.report._diagnostics import HEADS_OF_FILE, cells_of_file, diagnostics, is_complete
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._tables import Table, table
from timing_logger.report.html._timeline import Timeline
from timing_logger.schema.record import escape_text
from timing_logger.words.units import UNKNOWN, count

_MAX_REASONS = 10

_COUNTED = [*HEADS_OF_FILE, "CPU ms", "us per record"]
_KNOWN = ["file", "host", "aligned", "uncertainty us", "wall clock read within us", "device clock within us"]


def files_table(findings: Findings) -> Table:
    summary = findings.summary
    known = list(zip(summary.files, summary.counters, strict=True))
    if findings.crowd.is_many:
        known.sort(key=_worst_kept)
    rows = [[*cells_of_file(file, counters), *_cost(sidecar_of(file), counters)] for file, counters in known]
    which = "that are not complete, if any, and then those whose flush thread cost most"
    caption = "What each rank's logger counted, and what its flush thread cost"
    return table(caption, _COUNTED, rows, findings.crowd.shown(which, "summary --all"))


def _worst_kept(known: tuple[File, FileCounters]) -> tuple[bool, int]:
    file, counters = known
    cpu_ns = sidecar_of(file).get("logger_cpu_ns")
    return is_complete(counters), -cpu_ns if isinstance(cpu_ns, int) else 0


def _cost(sidecar: SidecarContent, counters: FileCounters) -> tuple[str, str]:
    cpu_ns, written = sidecar.get("logger_cpu_ns"), counters["written"]
    if not isinstance(cpu_ns, int):
        return UNKNOWN, UNKNOWN
    return f"{cpu_ns / 1e6:.1f}", f"{cpu_ns / 1e3 / written:.2f}" if written else UNKNOWN


def clocks_table(findings: Findings) -> Table:
    files = findings.summary.files
    if findings.crowd.is_many:
        files = sorted(files, key=_surest_last)
    rows = [*map(_clock_row, files)]
    which = findings.crowd.shown("whose instants are known worst", "summary --json")
    return table("How well the instants are known", _KNOWN, rows, which)


def _surest_last(file: File) -> float:
    uncertainty_s = (file.get("clock") or {}).get("uncertainty_s")
    return -math.inf if uncertainty_s is None else -uncertainty_s


def _clock_row(file: File) -> list[str]:
    sidecar = sidecar_of(file)
    clocks = sidecar.get("device_clocks") or []
    devices = [clock["worst_uncertainty_ns"] for clock in clocks if "worst_uncertainty_ns" in clock]
    anchors = [anchor["uncertainty_ns"] for anchor in sidecar.get("clock_anchors") or []]
    clock = file.get("clock") or {}
    uncertainty_s = clock.get("uncertainty_s")
    return [
        f"rank {file['rank']}, run {file['incarnation']}",
        escape_text(str(sidecar.get("host") or "")) or UNKNOWN,
        str(clock.get("alignment") or UNKNOWN),
        UNKNOWN if uncertainty_s is None else f"{1e6 * uncertainty_s:.1f}",
        _microseconds(anchors),
        _microseconds(devices),
    ]


def _microseconds(nanoseconds: list[int]) -> str:
    return f"{max(nanoseconds) / 1e3:.2f}" if nanoseconds else UNKNOWN


def what_is_unknown(findings: Findings) -> list[str]:
    """Return one sentence for each thing that is missing, damaged or not comparable."""
    return [
        *diagnostics(findings.summary, everything=not findings.crowd.is_many),
        *_sampled(findings.summary),
        *_unmatched(findings),
        *_clocks(findings),
        *_not_drawn(findings.timeline),
    ]


def _sampled(summary: Summary) -> Iterable[str]:
    options = [sidecar_of(file).get("options") or {} for file in summary.files]
    stated = [option.get("record_every_n_steps") for option in options]
    every = max((number for number in stated if isinstance(number, int)), default=1)
    if every > 1:
        yield f"One of {every} iterations was recorded; what happened between is not known."


def _unmatched(findings: Findings) -> Iterable[str]:
    reasons = list(findings.flawed.items())
    for (state, why), n_collectives in reasons[:_MAX_REASONS]:
        yield f"{count(n_collectives, 'collective')} {state}: {escape_text(why)}."
    if len(reasons) > _MAX_REASONS:
        others = count(sum(n for _, n in reasons[_MAX_REASONS:]), "more collective")
        yield f"{others} incomplete or mismatched, for other reasons."
    if findings.violations:
        rows = count(findings.violations, "row")
        yield f"{rows} ended before all ranks had arrived in the collective: the clocks are off."


def _clocks(findings: Findings) -> Iterable[str]:
    if not findings.timeline.is_common and findings.summary.ranks["rank"].nunique() > 1:
        yield (
            "The ranks' clocks are not known to agree. Nothing here compares their instants, and in the "
            "timeline each rank begins at its own first row."
        )


def _not_drawn(drawn: Timeline) -> Iterable[str]:
    if drawn.left_out:
        whose = "" if drawn.whose is None else f" of {count(len(drawn.whose.ranks), 'rank')}"
        yield (
            f"{count(drawn.left_out, 'row')} shorter than {drawn.shortest_ms:.4g} ms "
            f"are not in the timeline, which draws the {drawn.n_spans} longest{whose}."
        )
    if drawn.without_instants:
        yield f"{count(drawn.without_instants, 'row')} without a start and an end: not in the timeline."
