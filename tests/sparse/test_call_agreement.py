"""Ranks that would reduce different things all learn of it, and of who said what."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.sparse._call import (  # noqa: E402
    MAX_FACTS,
    Statement,
    _digest,
    _exchange_texts,
    agree,
)
from timing_logger.errors import ReductionError  # noqa: E402


class Others:
    """A transport of rank 0 whose other ranks state what the test says, and that counts its calls."""

    control_device = torch.device("cpu")

    def __init__(self, *others: Statement) -> None:
        self._others = others
        self.calls: list[str] = []
        self._texts: list[bytes] = []

    def allgather(self, tensor: Any, what: str) -> Any:
        self.calls.append(what)
        if what == "agreement":
            self._parts = [[one for one, _ in other.parts()] for other in self._others]
            self._mine = tensor.tolist()
            return torch.tensor([self._mine, *self._parts], dtype=torch.int64)
        texts = [
            torch.tensor(list(self._text_of(other).ljust(512, b"\0")), dtype=torch.uint8)
            for other in self._others
        ]
        return torch.stack([tensor, *texts])

    def _text_of(self, other: Statement) -> bytes:
        rows = [self._mine, *self._parts]
        trouble = any(row[0] for row in rows)
        at = (
            0
            if trouble
            else next(i for i, column in enumerate(zip(*rows, strict=True)) if len(set(column)) > 1)
        )
        return other.parts()[at][1].encode()


def said(mine: Statement, *others: Statement) -> str:
    """Return what rank 0 is told, or nothing if all agree."""
    transport: Any = Others(*others)
    try:
        agree(transport, mine)
    except ReductionError as error:
        assert transport.calls == ["agreement", "disagreement"]
        return str(error)
    assert transport.calls == ["agreement"]
    return ""


COMMON: dict[str, Any] = {
    "algorithm": "topk", "name": "w", "length": 12, "dtype": "float32", "travels_as": "float16",
    "travels_from": "cpu", "density": 0.5, "facts": {"entries picked:": 3},
}  # fmt: skip


def statement(**changes: Any) -> Statement:
    return Statement(**{**COMMON, **changes})


def test_ranks_that_state_the_same_agree_by_one_exchange() -> None:
    assert said(statement(), statement(), statement()) == ""


@pytest.mark.parametrize(
    ("changes", "here", "there"),
    [
        ({"algorithm": "dense"}, "algorithm topk", "algorithm dense"),
        ({"name": "v"}, "name 'w'", "name 'v'"),
        ({"length": 13}, "12 entries", "13 entries"),
        ({"dtype": "float64"}, "dtype float32", "dtype float64"),
        ({"travels_as": "float32"}, "values that travel as float16", "values that travel as float32"),
        ({"travels_from": "cuda"}, "values that travel from cpu", "values that travel from cuda"),
        ({"density": 0.25}, "density 0.5", "density 0.25"),
        ({"facts": {"entries picked:": 4}}, "entries picked: 3", "entries picked: 4"),
        ({"facts": {}}, "entries picked: 3", "no such number"),
    ],
)
def test_what_differs_is_said_of_each_rank(changes: dict[str, Any], here: str, there: str) -> None:
    told = said(statement(), statement(**changes), statement())
    assert told.startswith(
        f"the ranks do not agree on what to reduce: {here} on ranks 0 2, {there} on rank 1. Call it"
    )


def test_of_several_differences_the_first_is_told() -> None:
    assert "name 'w' on rank 0, name 'v' on rank 1" in said(statement(), statement(name="v", length=13))


def test_who_cannot_take_part_is_named_with_the_reason_before_any_difference() -> None:
    told = said(statement(), statement(trouble="no room"), statement(length=13))
    assert told == "nothing was reduced: rank 1 cannot take part: no room"


def test_if_no_rank_can_take_part_all_are_named() -> None:
    told = said(Statement(trouble="a"), Statement(trouble="b"))
    assert told == "nothing was reduced: rank 0 cannot take part: a; rank 1 cannot take part: b"


def test_all_statements_have_equally_many_parts() -> None:
    facts = {str(number): number for number in range(MAX_FACTS)}
    counts = {len(one.parts()) for one in (Statement(), statement(), statement(facts=facts))}
    assert counts == {12}


def test_a_statement_leaves_nothing_out_by_default() -> None:
    assert (Statement().density, Statement().length, Statement().trouble) == (1.0, 0, None)


def test_a_digest_of_a_text_is_the_same_in_every_process_and_fits_63_bits() -> None:
    digest = hashlib.blake2b(b"topk", digest_size=8).digest()
    assert _digest("topk") == int.from_bytes(digest, "little") // 2
    assert all(0 <= _digest(str(number)) < 2**63 for number in range(50))
    assert _digest("\ud800") != _digest("")


@pytest.mark.parametrize(("text", "arrives"), [("x" * 600, "x" * 512), ("ä" * 300, "ä" * 256), ("", "")])
def test_texts_are_cut_to_512_bytes(text: str, arrives: str) -> None:
    transport: Any = Others()
    assert _exchange_texts(transport, text) == [arrives]


def test_half_a_letter_at_the_cut_is_left_out() -> None:
    transport: Any = Others()
    assert _exchange_texts(transport, "x" + "ä" * 300) == ["x" + "ä" * 255]
