"""All that states counters of the host."""

from __future__ import annotations

from timing_logger.recording.host.control_groups import Quotas
from timing_logger.recording.host.devices import device_sources
from timing_logger.recording.host.files import Roots, Source
from timing_logger.recording.host.infiniband import infiniband_source
from timing_logger.recording.host.machine import machine_sources
from timing_logger.recording.host.pressure import pressure_sources
from timing_logger.recording.host.process import process_sources


def sources(roots: Roots | None = None) -> list[Source]:
    """Return what states the counters, whether this host has it or not."""
    roots = roots or Roots()
    return [
        *process_sources(roots),
        *pressure_sources(roots),
        Quotas(roots),
        *machine_sources(roots),
        *device_sources(),
        infiniband_source(roots),
    ]
