"""Which versions of torch were tried, and a warning for all others."""

from __future__ import annotations

import functools
import logging

import torch

OLDEST, NEWEST = (2, 8), (2, 15)
"""The oldest and the newest torch that was tried; what was run is in docs/compatibility.md."""

log = logging.getLogger("timing_logger")


@functools.cache
def warn_of_an_untried_torch() -> None:
    """Log a warning, once in a process, if this torch is older or newer than all that were tried."""
    if not is_tried(torch.__version__):
        log.warning(
            "torch %s was not tried with this package: %s to %s were. What works goes on, and some calls may "
            "be without rows.",
            torch.__version__,
            ".".join(map(str, OLDEST)),
            ".".join(map(str, NEWEST)),
        )


def is_tried(version: str) -> bool:
    """Tell whether torch's ``version``, such as ``"2.13.0+cpu"``, lies between those that were tried."""
    major, minor, *_ = version.split(".")
    try:
        return OLDEST <= (int(major), int(minor)) <= NEWEST
    except ValueError:  # a build of torch's own, under another name
        return False
