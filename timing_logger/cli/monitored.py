"""``run --monitor``: have the job judged while it goes on, and say in a line what changes."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from timing_logger.cli.stderr import say
from timing_logger.errors import ConfigurationError
from timing_logger.process.launchers import local_rank
from timing_logger.process.monitor import Monitor, MonitorProcess

_GRACE_S = 15.0
"""Seconds that the end of a job waits for what is still to be told; it is mostly one look."""

_BEFORE = {"begins": "", "changes": "now: ", "ends": "over: "}


class JobMonitor:
    """What the monitor of a job says is said in lines.

    Attributes:
        is_at_work: whether it, or that of another ``run`` on this host, may still tell what it sees.
        hang_stands: whether it told of a hang, and not of its end.
    """

    def __init__(self) -> None:
        self.is_at_work = True
        self.hang_stands = False

    def hear(self, content: Mapping[str, Any]) -> None:
        """Take an object that its process says."""
        if event := content.get("event"):
            self.hang_stands = event["event"] == "hang" and event["change"] != "ends"
            at = datetime.fromisoformat(event["at"]).astimezone()
            say(f"{at:%H:%M:%S} {_BEFORE[event['change']]}{event['text']}")
        if said := content.get("said"):
            say(f"monitor: {said}")
        if "ended" in content:
            self.is_at_work = False
        if content.get("ended"):
            say(f"the monitor ended ({content['ended']}); the job goes on without.")


@contextmanager
def monitored(arguments: Namespace, log_dir: Path) -> Iterator[JobMonitor | None]:
    """Have the job that runs in the block judged, if that was asked. Nothing that goes wrong concerns it.

    Yields:
        The monitor; None if none was asked.

    Raises:
        ConfigurationError: what was asked contradicts itself.
    """
    monitor = _monitor(arguments)
    if monitor is None:
        yield None
        return
    of_job = JobMonitor()
    if local_rank(os.environ) not in ("", "0"):  # another ``run`` of this host has one
        yield of_job
        return
    try:
        process = MonitorProcess(monitor.settings(str(log_dir), time.time()), of_job.hear)
    except OSError as error:
        say(f"the job cannot be judged while it goes on: {error}")
        of_job.is_at_work = False
        yield of_job
        return
    try:
        yield of_job
    finally:
        process.close(_GRACE_S)


def _monitor(arguments: Namespace) -> Monitor | None:
    """Return the options of the monitor; None if none is asked."""
    if not arguments.monitor:
        for name in ("webhook", "prometheus"):
            if getattr(arguments, name) is not None:
                raise ConfigurationError(f"--{name} is for what a monitor sees: give --monitor, too.")
        return None
    from timing_logger.live.destinations import Prometheus
    from timing_logger.live.webhook import Webhook

    return Monitor(
        every_s=arguments.monitor_every,
        webhooks=[Webhook(arguments.webhook)] if arguments.webhook else [],
        show_in=[Prometheus(arguments.prometheus)] if arguments.prometheus else [],
    )
