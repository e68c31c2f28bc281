"""What a scenario needs around its job, made before and removed after it. Most takes the rights of root."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from real_causes.control_groups import with_quota, with_swap
from real_causes.device import with_devices
from real_causes.link import with_link

_MADE = {
    "quota": with_quota,
    "memory": with_swap,
    "network": with_link,
    "loss": with_link,
    "device_clock": with_devices,
}


@contextmanager
def surroundings(scenario: str) -> Iterator[dict[str, str] | None]:
    """Make what a scenario needs.

    Yields:
        The environment variables that tell its job of it; None, where this machine cannot make it. Then the
        reason is printed.
    """
    with ExitStack() as made:
        try:
            environment = made.enter_context(_MADE[scenario]()) if scenario in _MADE else {}
        except (ImportError, OSError) as error:
            print(f"{scenario}: {error}", file=sys.stderr)
            yield None
            return
        yield environment
