"""The link over a process group: who it may be made of, and the channels between two of its ranks."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

dist = pytest.importorskip("torch.distributed")

from allreduce_instrumentation.clock_sync import _group_link  # noqa: E402
from allreduce_instrumentation.clock_sync._group_link import group_link  # noqa: E402
from timing_logger.errors import ConfigurationError  # noqa: E402


def test_a_group_without_a_backend_for_the_host_is_refused_with_the_way_out() -> None:
    group = dist.ProcessGroup(0, 1)  # which has no backend at all
    with (
        pytest.raises(ConfigurationError, match=r'^comm is .*new_group\(ranks, backend="gloo"\)'),
        group_link(group),
    ):
        pass


class Group:
    """A group of this process alone, whose backend says how long it waits, or does not."""

    def __init__(self, **options: Any) -> None:
        self._backend = SimpleNamespace(**options)

    def _get_backend(self, device: object) -> Any:
        return self._backend

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1


def test_a_link_waits_as_long_as_its_group_and_else_as_torch_does() -> None:
    told: Any = Group(options=SimpleNamespace(_timeout=timedelta(minutes=2)))
    untold: Any = Group()
    with group_link(told) as first, group_link(untold) as second:
        default_s = dist.constants.default_pg_timeout.total_seconds()
        assert (first._timeout_s, second._timeout_s) == (120.0, default_s)


def test_a_link_closes_its_listener_at_the_end() -> None:
    class Closes:
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    listener: Any = Closes()
    group: Any = Group()
    with group_link(group) as link:
        link._listener = listener
    assert listener.is_closed
    assert _group_link.GroupLink(group)._listener is None  # and one without has none to close
