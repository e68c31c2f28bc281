"""The page of the HTML report: the findings of the analyses in the template."""

from __future__ import annotations

import base64
import functools
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pandas as pd

from timing_logger.analysis.collectives.bandwidth import Benchmark
from timing_logger.errors import ConfigurationError
from timing_logger.process.shared_files import write
from timing_logger.reading.atomic_files import draft_of
from timing_logger.report._host_rates import HostTable, host_tables
from timing_logger.report.html._account import account_chart
from timing_logger.report.html._accounting import clocks_table, files_table, what_is_unknown
from timing_logger.report.html._causes import NO_CAUSES, CausesStrip, CauseSums, causes_of
from timing_logger.report.html._charts import compression_chart, operation_charts, overlap_chart
from timing_logger.report.html._counter_lines import NO_LINES, CounterLines, LineValues, counter_lines_of
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._heatmap import heatmap
from timing_logger.report.html._heatmap_grid import Grid
from timing_logger.report.html._scatter import bandwidth_chart
from timing_logger.report.html._step import StepChart, TimeKinds, step_chart
from timing_logger.report.html._tables import FIRST, as_script_data
from timing_logger.report.html._verdict import judgement, suspects_table
from timing_logger.results.plain import ShownStep
from timing_logger.results.verdict import Verdict
from timing_logger.schema.record import escape_text
from timing_logger.words.units import count, size
from timing_logger.words.verdict import headline, particulars, what_next

if TYPE_CHECKING:
    import jinja2

AnyPath: TypeAlias = "str | os.PathLike[str]"

SECTIONS = (
    "verdict", "time", "heatmap", "operations", "bandwidth", "overlap", "compression", "timeline",
    "accounting",
)  # fmt: skip
"""The sections of the page, as a link to one names it after the ``#``."""

_DRAWN_IN = {"heatmap": "heatmap", "causes": "heatmap", "timeline": "timeline", "counters": "timeline"}
"""The section in which the scripts draw each part of the data."""

_SCRIPTS = (
    "packed.js", "tooltip.js", "canvas.js", "heatmap.js", "causes.js", "timeline.js", "counters.js",
    "moving.js", "linking.js", "lighting.js", "measuring.js", "jumping.js", "drawing.js",
)  # fmt: skip


def write_report(
    timings: pd.DataFrame,
    path: AnyPath,
    *,
    host: pd.DataFrame | None = None,
    stacks: pd.DataFrame | None = None,
    expected: Benchmark | None = None,
) -> None:
    """Write :func:`report_html` to a file, which is replaced if it exists.

    Args:
        timings, host, stacks, expected: as for :func:`report_html`.
        path: the file.

    Raises:
        ConfigurationError: Jinja2 is not installed.
        LogPathError: the file cannot be written, or must not be replaced: a folder, a device, a timing file.
            An existing file is then unchanged.
    """
    write_findings(Findings.of(timings, host, stacks).beside(expected), path, host_tables(host))


def write_findings(findings: Findings, path: AnyPath, hosts: Iterable[HostTable] = ()) -> None:
    """Write the report of ``findings`` to a file; raises the same exceptions as :func:`write_report`.

    Args:
        findings: what is shown.
        path: the file.
        hosts: what each process wrote of its host, which is looked at one by one.
    """
    write_page(_page(findings, hosts), path)


def write_page(page: str, path: AnyPath) -> None:
    """Write a page to a file, which is replaced if it exists."""
    with draft_of(Path(path)) as draft:
        write(draft, page.encode())


def report_html(
    timings: pd.DataFrame,
    *,
    host: pd.DataFrame | None = None,
    stacks: pd.DataFrame | None = None,
    expected: Benchmark | None = None,
) -> str:
    """Return the report of a run as one HTML document without references to other documents.

    It contains, in this order: the verdict with its gates; where each rank's time went; a heatmap of rank by
    iteration; the parts of the operations; bandwidth against size; exposed and hidden communication; whether
    compression pays; a timeline; the logger's counters; what could not be known. The same table gives the
    same text.

    Args:
        timings: as ``read_timings`` returns. Without its ``attrs`` the report has nothing about files and
            clocks.
        host: what ``read_host_counters`` returns: what coincides with time that is lost, in the verdict; what
            may have held ranks up, under the heatmap; under the timeline the counters that vary most.
        stacks: what ``read_stack_samples`` returns: which code the named ranks ran, and those that spent much
            time in no row.
        expected: what ``importing.read_benchmark`` returns: beside the bandwidths, the share of it that the
            run reached.

    Raises:
        ConfigurationError: Jinja2 is not installed.
    """
    return _page(Findings.of(timings, host, stacks).beside(expected), host_tables(host))


def _page(findings: Findings, hosts: Iterable[HostTable]) -> str:
    content, data = sections(findings, hosts)
    return rendered("page.html.jinja", {**content, **surroundings("main.js"), "data": as_script_data(data)})


def section_html(
    timings: pd.DataFrame, shown: Sequence[str], host: pd.DataFrame | None, stacks: pd.DataFrame | None
) -> str:
    """Return some sections of :func:`report_html` as a document without its head.

    Raises:
        ConfigurationError: ``shown`` is a text, or has a name not in ``SECTIONS``; Jinja2 is not installed.
    """
    if isinstance(shown, str):
        raise ConfigurationError(f"sections={shown!r} must be a list of names, such as [{shown!r}].")
    if unknown := [name for name in shown if name not in SECTIONS]:
        raise ConfigurationError(
            f"sections={list(shown)!r}: there is no section {unknown[0]!r}; there are {', '.join(SECTIONS)}."
        )
    content, data = sections(Findings.of(timings, host, stacks), host_tables(host))
    drawn = {name: part for name, part in data.items() if _DRAWN_IN[name] in shown}
    of_page = {**content, **surroundings("main.js"), "data": as_script_data(drawn), "shown": shown}
    return rendered("sections.html.jinja", of_page)


def rendered(template: str, content: Mapping[str, object]) -> str:
    """Return a page.

    Raises:
        ConfigurationError: Jinja2 is not installed.
    """
    return _environment().get_template(template).render(**content)


def surroundings(*scripts: str) -> dict[str, object]:
    """Return what the template needs besides the sections, with these scripts after those that draw."""
    script = "\n".join(static_text(name) for name in (*_SCRIPTS, *scripts))
    return {
        "style": static_text("report.css"),
        "script": script,
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }


def sections(findings: Findings, hosts: Iterable[HostTable]) -> tuple[dict[str, object], dict[str, object]]:
    """Return what the template needs for the sections, and the data that the scripts draw."""
    drawn_heatmap = heatmap(findings)
    causes, counters = host_parts(findings, drawn_heatmap.grid, hosts)
    content: dict[str, object] = {
        "shown": SECTIONS,
        "title": title(findings),
        "facts": facts(findings),
        "judgement": judgement(findings),
        "heatmap": drawn_heatmap,
        "causes": causes,
        "account": account_chart(findings),
        "operations": operation_charts(findings),
        "bandwidth": bandwidth_chart(findings.bandwidth, findings.crowd, findings.benchmark),
        "overlap": overlap_chart(findings.overlap, findings.crowd),
        "compression": compression_chart(findings.compression),
        "timeline": findings.timeline,
        "counters": counters,
        "timeline_left_out": findings.crowd.on_timeline(),
        "files": files_table(findings),
        "clocks": clocks_table(findings),
        "unknown": what_is_unknown(findings),
    }
    data: dict[str, object] = {
        "heatmap": drawn_heatmap.data,
        "causes": causes.data,
        "timeline": findings.timeline.data,
        "counters": counters.data,
    }
    return content, data


def static_text(name: str) -> str:
    """Return the text of a file in ``static``."""
    file = resources.files("timing_logger.report.html") / "static" / name
    return file.read_text(encoding="utf-8").strip()


@functools.cache  # with its templates, which take long to compile
def _environment() -> jinja2.Environment:
    try:
        import jinja2
    except ImportError:
        raise ConfigurationError(
            "the HTML report needs Jinja2, which is not installed: pip install 'timing_logger[html]'."
        ) from None
    return jinja2.Environment(
        loader=jinja2.PackageLoader("timing_logger.report.html"),
        autoescape=True,  # names in the data are not trusted
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


# -- what the page shows of the hosts: the strip of causes and the lines under the timeline, in one go ---


class HostParts(NamedTuple):
    """Both parts, either of which may have nothing to show."""

    causes: CausesStrip
    lines: CounterLines


def host_parts(findings: Findings, grid: Grid | None, hosts: Iterable[HostTable]) -> HostParts:
    """Return both parts.

    Args:
        findings: with the steps and the timeline.
        grid: the columns of the heatmap; None if there is none.
        hosts: what each process wrote of its host. Each is looked at once, and not kept.
    """
    cause = findings.verdict.cause
    sums = CauseSums(findings, grid) if grid else None
    values = LineValues(findings.timeline, cause.counter if cause else "") if findings.timeline.data else None
    for host in hosts:
        for part in (sums, values):
            if part is not None:
                part.add(host)
    return HostParts(
        causes_of(sums, grid, cause.name if cause else "") if sums and grid else NO_CAUSES,
        counter_lines_of(values) if values else NO_LINES,
    )


# -- the head of the page, which identifies the run ------------------------------------------------------


def title(findings: Findings) -> str:
    """Return the last two levels of the folder's path: the last alone is often ``timing`` or ``logs``."""
    folders = {os.path.abspath(Path(file["path"]).parent) for file in findings.summary.files}
    if not folders:
        return "Timings"
    return escape_text("/".join(Path(os.path.commonpath(sorted(folders))).parts[-2:]).lstrip("/"))


def facts(findings: Findings) -> dict[str, str]:
    """Return what identifies a run, by name: its ranks, iterations, rows, times, hosts and files."""
    ranks, files = findings.summary.ranks, findings.summary.files
    sidecars = [file["sidecar"] for file in files if file["sidecar"]]
    hosts = sorted({str(sidecar["host"]) for sidecar in sidecars if sidecar.get("host")})
    begin = findings.began
    known = {
        "ranks": f"{ranks['rank'].nunique():,}",
        "iterations": f"{n_steps:,}" if (n_steps := _n_steps(findings)) else "",
        "rows": f"{findings.n_rows:,}",
        "wall time": f"{ranks['wall_s'].max():.2f} s" if ranks["wall_s"].notna().any() else "",
        "began (UTC)": f"{begin:%Y-%m-%d %H:%M:%S}" if begin == begin else "",
        "hosts": ", ".join(map(escape_text, hosts)) if len(hosts) <= 3 else count(len(hosts), "host"),
        "files": size(sum(file["bytes"] for file in files)) if files else "",
    }
    return {name: value for name, value in known.items() if value}


def _n_steps(findings: Findings) -> int:
    """Return the number of distinct iterations of the run; per epoch, if they restart."""
    steps = findings.overlap[findings.overlap["iteration"].notna()]
    return len(steps[[name for name in ("epoch", "iteration") if name in steps]].drop_duplicates())


# -- what a notebook shows of a verdict: its words, the suspects and a typical step, as a page of its own -


_WORDS_PX, _ROW_PX, _STEP_PX, _LANE_PX = 280, 32, 240, 31


def verdict_cell(verdict: Verdict) -> tuple[str, int]:
    """Draw a verdict, with the step that it has: return the page, and its height on a wide screen in pixels.

    Raises:
        ConfigurationError: Jinja2 is not installed.
    """
    chart, legend = _drawn(verdict.step) if verdict.step else (None, [])
    content = {
        "style": static_text("report.css"),
        "kind": verdict.verdict if verdict.judged else "unjudged",
        "headline": headline(verdict),
        "particulars": particulars(verdict),
        "next": what_next(verdict),
        "suspects": suspects_table(verdict, FIRST),
        "step": chart,
        "legend": legend,
    }
    height_px = (
        _WORDS_PX
        + _ROW_PX * len(verdict.suspects[:6])
        + (_STEP_PX + _LANE_PX * len(chart.lanes) if chart else 0)
    )
    return rendered("verdict_cell.html.jinja", content), height_px


def _drawn(step: ShownStep) -> tuple[StepChart, list[tuple[str, str]]]:
    """Return the chart of a step, and what its colours mean."""
    ms = step.stretches["end_ms"] - step.stretches["start_ms"]
    kinds = TimeKinds.of(step.stretches.assign(ms=ms))
    chart = step_chart(step, kinds)
    drawn = {part.kind for lane in chart.lanes for part in lane.parts}
    return chart, [(kind, name) for kind, name in kinds.names.items() if kind in drawn]
