"""Which part of a model a collective is for, as far as its sizes and the stack tell."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from allreduce_instrumentation.torch_distributed import _layer_names  # noqa: E402
from allreduce_instrumentation.torch_distributed._layer_names import (  # noqa: E402
    DdpBuckets,
    DdpModels,
    fsdp_layer,
    is_fsdp_module,
    names_bucket,
)


class Model:
    """A DDP model as far as it is asked: its parameters, and what its C++ half says of its buckets."""

    def __init__(self, **sizes: int) -> None:
        self.module = nn.Module()
        for name, size in sizes.items():
            self.module.register_parameter(name, nn.Parameter(torch.zeros(size)))
        self._has_rebuilt_buckets = False
        self.said: dict[str, str] = {}

    def _get_ddp_logging_data(self) -> dict[str, str]:
        return self.said


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what was to be called at the end of the backward pass."""
    calls: list[Any] = []

    class Engine:
        def queue_callback(self, call: Any) -> None:
            calls.append(call)

    monkeypatch.setattr(torch.autograd.Variable, "_execution_engine", Engine())
    return calls


def buckets_of(model: Any) -> tuple[DdpBuckets, list[str]]:
    changes: list[str] = []
    return DdpBuckets(model, lambda: changes.append("changed")), changes


@pytest.mark.parametrize(
    ("name", "expected"), [("ddp:a", True), ("ddp:", True), ("fsdp:a", False), ("", False), (None, False)]
)
def test_a_name_of_a_bucket_begins_with_its_kind(name: str | None, expected: bool) -> None:
    assert names_bucket(name) is expected


def test_outside_of_fsdp_a_collective_has_no_module() -> None:
    assert fsdp_layer() == ""
    assert not is_fsdp_module(nn.Linear(1, 1))


class Group:
    """FSDP2's group of parameters, whose method issues collectives some frames deep."""

    def __init__(self, name: str | None) -> None:
        self._module_fqn = name

    def unshard(self, depth: int) -> str:
        return nested(depth)


def nested(depth: int) -> str:
    """Return the layer that is found ``depth`` frames above this one."""
    return fsdp_layer() if depth == 0 else nested(depth - 1)


@pytest.mark.parametrize(
    ("name", "layer"), [("layers.3", "fsdp:layers.3"), (None, "fsdp:(root)"), ("", "fsdp:(root)")]
)
def test_a_collective_of_fsdp_is_named_after_the_module_of_its_method(
    name: str | None, layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_layer_names, "_fsdp_codes", (Group.unshard.__code__,))
    assert Group(name).unshard(0) == layer


@pytest.mark.parametrize(("depth", "layer"), [(10, "fsdp:a"), (11, "")])
def test_the_method_is_looked_for_in_twelve_frames(
    depth: int, layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_layer_names, "_fsdp_codes", (Group.unshard.__code__,))
    assert Group("a").unshard(depth) == layer


# -- buckets ---------------------------------------------------------------------------------------------


def test_the_first_buckets_are_formed_of_parameters_backwards_and_named_after_their_first() -> None:
    model = Model(a=2, b=3, c=4)
    buckets, _ = buckets_of(model)
    assert buckets.known
    assert [buckets.next_name(entries, 1) for entries in (7, 2)] == ["ddp:b", "ddp:a"]
    assert [buckets.next_name(entries, 2) for entries in (7, 2)] == ["ddp:b", "ddp:a"]


def test_a_bucket_of_another_size_has_no_name_and_the_next_one_still_has() -> None:
    model = Model(a=2, b=3)
    buckets, _ = buckets_of(model)
    assert buckets.next_name(4, 1) == ""
    assert buckets.next_name(3, 1) == "ddp:b"
    assert buckets.next_name(9, 1) == ""
    assert buckets.next_name(2, 1) == "ddp:a"
    assert buckets.next_name(2, 1) == ""


def test_frozen_parameters_are_in_no_bucket() -> None:
    model = Model(a=2, b=3)
    dict(model.module.named_parameters())["b"].requires_grad_(False)
    buckets, _ = buckets_of(model)
    assert buckets.next_name(2, 1) == "ddp:a"


def test_what_is_expected_is_what_is_named() -> None:
    model = Model(a=2, b=3)
    buckets, _ = buckets_of(model)
    assert [buckets.expects(entries, 1) for entries in (2, 3, 4, 5, 6)] == [False, True, False, True, False]
    assert buckets.take(5) == "ddp:a"
    assert not buckets.expects(5, 1)
    assert buckets.expects(5, 2)


def test_a_pass_in_a_pass_goes_on_where_the_outer_one_was() -> None:
    model = Model(a=2, b=3)
    buckets, _ = buckets_of(model)
    assert buckets.next_name(3, 1) == "ddp:b"
    assert buckets.next_name(2, 2) == "ddp:a"


def test_a_model_that_is_gone_has_no_buckets() -> None:
    model = Model(a=2)
    buckets, changes = buckets_of(model)
    assert buckets.model is model  # type: ignore[comparison-overlap]
    del model
    assert (buckets.model, changes) == (None, ["changed"])
    assert buckets.next_name(2, 1) == ""
    assert not buckets.known


def rebuilt(model: Model, order: str, sizes: str) -> None:
    model._has_rebuilt_buckets = True
    model.said = {"rebuilt_per_bucket_param_indices": order, "rebuilt_bucket_sizes": sizes}


def test_buckets_that_ddp_rebuilt_are_asked_for_at_the_end_of_the_pass_and_stay(asked: list[Any]) -> None:
    model = Model(a=2, b=3, c=4)
    buckets, changes = buckets_of(model)
    rebuilt(model, "0 2, 1", "24, 12")
    assert buckets.next_name(9, 1) == ""
    assert (buckets.known, buckets.for_good, changes) == (False, [], [])
    (ask,) = asked
    ask()
    assert changes == ["changed"]
    assert buckets.for_good == [("ddp:a", 6), ("ddp:b", 3)]
    assert [buckets.next_name(entries, 2) for entries in (6, 3)] == ["ddp:a", "ddp:b"]
    assert len(asked) == 1


def test_as_long_as_ddp_does_not_say_it_is_asked_at_each_pass(asked: list[Any]) -> None:
    model = Model(a=2)
    buckets, _ = buckets_of(model)
    rebuilt(model, "", "")
    for number in (1, 2):
        assert buckets.next_name(2, number) == ""
        asked[-1]()
    assert len(asked) == 2


def test_rebuilt_buckets_are_not_put_together_any_more(asked: list[Any]) -> None:
    model = Model(a=2, b=3)
    buckets, _ = buckets_of(model)
    rebuilt(model, "1, 0", "12, 8")
    buckets.next_name(5, 1)
    asked[0]()
    assert not buckets.expects(5, 2)
    assert buckets.next_name(5, 3) == ""
    assert buckets.next_name(3, 3) == "ddp:b"


def test_an_answer_that_cannot_be_read_harms_no_pass(asked: list[Any]) -> None:
    model = Model(a=2)
    buckets, changes = buckets_of(model)
    rebuilt(model, "7", "8")
    buckets.next_name(2, 1)
    asked[0]()
    assert (buckets.known, changes) == (False, ["changed"])


# -- models ----------------------------------------------------------------------------------------------


class Pass:
    """The backward pass of the calling thread, by its number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 1
        monkeypatch.setattr(torch._C, "_current_graph_task_id", lambda: self.number)


@pytest.fixture
def backward(monkeypatch: pytest.MonkeyPatch) -> Pass:
    return Pass(monkeypatch)


def models_of(*models: Any) -> DdpModels:
    found = DdpModels()
    for model in models:
        found.add(model)
    return found


def test_outside_of_a_pass_nothing_is_a_bucket(backward: Pass) -> None:
    model = Model(a=2)
    models = models_of(model)
    backward.number = -1
    assert models.layer(2) == ""
    backward.number = 1
    assert models.layer(2) == "ddp:a"


@pytest.mark.usefixtures("backward")
def test_of_two_models_the_one_that_expects_the_bucket_is_named() -> None:
    first, second = Model(a=2, b=3), Model(c=4)
    models = models_of(first, second)
    assert models.known
    assert [models.layer(entries) for entries in (3, 4, 2)] == ["ddp:b", "ddp:c", "ddp:a"]


def test_a_pass_in_which_either_model_might_be_meant_has_no_names_from_there_on(backward: Pass) -> None:
    first, second = Model(a=2, b=3), Model(c=3)
    models = models_of(first, second)
    assert [models.layer(entries) for entries in (3, 2)] == ["", ""]
    backward.number = 2
    assert models.layer(7) == ""
    assert models.layer(2) == ""


@pytest.mark.usefixtures("backward")
def test_a_model_that_is_gone_is_expected_no_more() -> None:
    first, second = Model(a=2), Model(b=2)
    models = models_of(first, second)
    del first
    assert models.layer(2) == "ddp:b"
    assert models.layer(5) == ""
    assert len(models._models) == 1


def test_without_a_model_nothing_is_known_or_named(backward: Pass) -> None:
    models = models_of()
    assert not models.known
    assert models.layer(2) == ""


@pytest.mark.usefixtures("backward")
def test_a_model_that_is_added_again_is_one_model_with_fresh_names() -> None:
    model = Model(a=2)
    models = models_of(model)
    models.layer(2)
    models.add(model)  # type: ignore[arg-type]
    assert len(models._models) == 1
    assert models.layer(2) == "ddp:a"


def test_buckets_are_told_while_they_are_those_of_the_only_model_for_good(
    backward: Pass, asked: list[Any]
) -> None:
    model, other = Model(a=2), Model(b=3)
    models = models_of(model)
    told: list[list[tuple[str, int]]] = []
    models.tell = told.append
    rebuilt(model, "0", "8")
    models.layer(2)
    asked[0]()
    models.add(other)  # type: ignore[arg-type]
    assert told == [[("ddp:a", 2)], []]
