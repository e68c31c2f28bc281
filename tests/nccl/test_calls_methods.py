"""What a call of NCCL sends, and to whom, by its arguments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from allreduce_instrumentation._operation_counts import as_rank
from allreduce_instrumentation.nccl._calls import METHODS, NcclMethod, bytes_of


def buffer(n_bytes: int) -> Any:
    return SimpleNamespace(nbytes=n_bytes)


METHOD = NcclMethod("REDUCE", ("sendbuf", "recvbuf", "root"), "sendbuf", root="root")


@pytest.mark.parametrize(
    ("name", "value"), [("sendbuf", 1), ("recvbuf", 2), ("root", 3), ("stream", 4), ("no such", None)]
)
def test_an_argument_is_found_by_place_or_by_name(name: str, value: int | None) -> None:
    assert METHOD.given(name, (1, 2), {"root": 3, "stream": 4}) == value


@pytest.mark.parametrize(("value", "rank"), [(2, 2), (True, 1), (None, None), ("2", None), (2.0, None)])
def test_only_whole_numbers_are_ranks(value: object, rank: int | None) -> None:
    assert as_rank(value) == rank


@pytest.mark.parametrize(
    ("name", "args", "rank"),
    [
        ("broadcast", (1, 2, 3), 3),
        ("send", (1, 2), 2),
        ("signal", (2,), 2),
        ("reduce", (1, 2, 0), None),
        ("allreduce", (1, 2, 0), None),
        ("wait_signal", (7,), None),
    ],
)
def test_the_other_rank_is_the_root_or_the_peer(name: str, args: tuple[int, ...], rank: int | None) -> None:
    assert METHODS[name].other_rank(args, {}) == rank


@pytest.mark.parametrize(
    ("name", "sent"),
    [("allreduce", 8), ("reduce", 8), ("gather", 8), ("broadcast", 6), ("scatter", 24), ("signal", 0)],
)
def test_a_rank_that_is_not_the_root_states_what_the_roots_buffer_has(name: str, sent: int) -> None:
    given = {"sendbuf": buffer(8), "recvbuf": buffer(6), "root": 1, "peer": 1}
    assert METHODS[name].sent_bytes((), given, rank=0, size=4) == sent


@pytest.mark.parametrize("name", ["broadcast", "scatter", "reduce"])
def test_the_root_states_its_own_buffer(name: str) -> None:
    given = {"sendbuf": buffer(8), "recvbuf": buffer(6), "root": 1}
    assert METHODS[name].sent_bytes((), given, rank=1, size=4) == 8


@pytest.mark.parametrize("name", ["broadcast", "scatter"])
def test_of_a_buffer_of_unknown_size_the_roots_is_unknown(name: str) -> None:
    assert METHODS[name].sent_bytes((), {"recvbuf": None, "root": 1}, rank=0, size=4) is None


class Described:
    """An array as CuPy describes one."""

    __cuda_array_interface__ = {"shape": (3, 4), "typestr": "<f8"}  # noqa: RUF012


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (buffer(0), 0),
        (Described(), 96),
        (SimpleNamespace(size=5), 5),
        (SimpleNamespace(size=5.0), None),
        (SimpleNamespace(nbytes="x"), None),
        (None, None),
    ],
)
def test_bytes_are_those_that_the_buffer_states(value: object, size: int | None) -> None:
    assert bytes_of(value) == size
