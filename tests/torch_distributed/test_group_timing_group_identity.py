"""What a process group is called in the rows, and that its numbers are its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.torch_distributed import _backends  # noqa: E402
from allreduce_instrumentation.torch_distributed import _group_timing as _group_identity  # noqa: E402
from allreduce_instrumentation.torch_distributed._backends import (  # noqa: E402
    control_device,
    has_nccl2,
    members_of,
    runs_in_streams,
)
from allreduce_instrumentation.torch_distributed._group_timing import GroupIdentity  # noqa: E402
from timing_logger.errors import ConfigurationError  # noqa: E402


class Group:
    """A group as far as it is asked."""

    def __init__(self, kind: str = "default_pg", name: str = "0", rank: int = 1, size: int = 4) -> None:
        self.group_desc, self.group_name = kind, name
        self._rank, self._size = rank, size

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size


class Nameless(Group):
    """A group that is written in Python, and has no backend to keep its name."""

    @property
    def group_desc(self) -> str:
        raise RuntimeError("no backend")

    @group_desc.setter
    def group_desc(self, _: str) -> None:
        pass


def identity(group: Any) -> GroupIdentity:
    return GroupIdentity.of(group)


@pytest.mark.parametrize(
    ("kind", "name", "called"),
    [
        ("default_pg", "0", "default_pg 0"),
        ("mesh_dp", "3", "mesh_dp 3"),
        ("undefined", "7", "process group 7"),
        ("", "7", "process group 7"),
        ("", "", "process group"),
    ],
)
def test_a_group_is_called_by_its_description_and_number(kind: str, name: str, called: str) -> None:
    assert identity(Group(kind, name)).name == called


def test_a_group_that_keeps_no_name_is_called_as_torch_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    known, unknown = Nameless(), Nameless()
    monkeypatch.setattr(_group_identity.c10d, "_world", SimpleNamespace(pg_names={known: "5"}))
    assert identity(known).name == "process group 5"
    assert identity(unknown).name == "process group"


def test_the_identity_has_rank_and_size_and_is_the_same_at_each_call() -> None:
    group = Group(rank=1, size=4)
    first = identity(group)
    assert (first.rank, first.size) == (1, 4)
    assert identity(group) is first


def test_a_group_that_shares_an_identity_has_its_name_and_counts() -> None:
    group, other = Group(), Group("another")
    shared: Any = other
    identity(group).share_with(shared)
    assert identity(other) is identity(group)


# -- backends --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "expected"), [("gloo", False), ("mpi", False), ("ucc", False), ("nccl", True), ("xccl", True)]
)
def test_backends_of_the_host_run_in_no_stream(backend: str, expected: bool) -> None:
    assert runs_in_streams(backend) is expected


@pytest.mark.parametrize(
    ("name", "expected"), [("nccl2", True), ("nccl-lazy", True), ("nccl", False), (None, False)]
)
def test_the_newer_backend_is_known_by_what_it_calls_itself(name: str | None, expected: bool) -> None:
    backend = SimpleNamespace(name=lambda: name) if name else SimpleNamespace()
    group: Any = SimpleNamespace(_device_types=["cuda"], _get_backend=lambda device: backend)
    assert has_nccl2(group) is expected


def test_a_group_that_was_destroyed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    group: Any = Group()
    with pytest.raises(ConfigurationError, match="comm is a process group that was destroyed"):
        members_of(group)


@pytest.mark.parametrize(
    ("backends", "accelerator", "expected"),
    [
        ({"cpu": "gloo", "cuda": "nccl"}, "cuda", torch.device("cpu")),
        ({"cuda": "nccl"}, None, torch.device("cpu")),
        ({"cuda": "nccl"}, "cuda", torch.device("cuda", 1)),
    ],
)
def test_tensors_of_control_are_on_the_host_where_a_backend_takes_them(
    backends: dict[str, str], accelerator: str | None, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backends, "backends_of", lambda group: backends)
    found = None if accelerator is None else torch.device(accelerator)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: found)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    group: Any = Group()
    assert control_device(group) == expected


def test_backends_are_told_by_the_type_of_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backends.dist, "get_backend_config", lambda group: "cpu:gloo,cuda:a:b")
    group: Any = Group()
    assert _backends.backends_of(group) == {"cpu": "gloo", "cuda": "a:b"}
