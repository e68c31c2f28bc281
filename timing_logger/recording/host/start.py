"""Starts the thread that writes the host's counters, beside the timing file of a logger."""

from __future__ import annotations

from timing_logger.files_beside import HOST
from timing_logger.host_counters import HEADER
from timing_logger.recording.file_beside import FileBeside
from timing_logger.recording.host.sampler import HostSampler
from timing_logger.recording.host.sources import sources
from timing_logger.sinks.csv import CsvSink


def start_counting(timing_file: CsvSink, started_unix_ns: int, mode: int) -> HostSampler:
    """Write the counters of this process's host from now on, into a file beside the timing file.

    Args:
        timing_file: the timing file.
        started_unix_ns: the start time that its sidecar states.
        mode: permissions of the file, from which the process's umask is subtracted.
    """
    file = FileBeside(timing_file, HOST, HEADER, started_unix_ns=started_unix_ns, mode=mode)
    return HostSampler(sources, file)
