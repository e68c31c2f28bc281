"""What the page shows of the hosts: the strip of causes and the lines under the timeline, in one go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from timing_logger.report._host_rates import HostTable
from timing_logger.report.html._causes import NO_CAUSES, Causes, CauseSums, causes_of
from timing_logger.report.html._counter_lines import NO_LINES, CounterLines, LineValues, counter_lines_of
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._heatmap_grid import Grid


class HostParts(NamedTuple):
    """Both parts, either of which may have nothing to show."""

    causes: Causes
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
