"""Channels of the core in use: how many records they hold, and what is said where memory is refused."""

from __future__ import annotations

import pytest

from timing_logger.errors import ConfigurationError
from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.cores.chosen import MOST_RECORDS, new_channel


class Refused(Channel):
    """One for which the system has no memory."""

    def __init__(self, capacity: int) -> None:
        raise MemoryError("no room")


def test_memory_that_the_system_refuses_is_an_error_that_says_what_to_change() -> None:
    with pytest.raises(ConfigurationError, match=r"^maxsize=99: no room\. .* choose a smaller maxsize, or"):
        new_channel(99, Refused)


@pytest.mark.parametrize(
    ("asked", "capacity"), [(99, 99), (2**36, 2**36), (2**36 + 1, 2**36), (2**70, 2**36)]
)
def test_no_channel_is_longer_than_any_memory(asked: int, capacity: int) -> None:
    assert new_channel(asked, Channel).capacity == capacity
    assert MOST_RECORDS == 2**36
