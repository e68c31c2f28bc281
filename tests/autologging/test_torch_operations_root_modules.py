"""The modules whose forward passes are told: the outermost ones that are called, and only these."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from timing_logger.autologging import torch_operations  # noqa: E402
from timing_logger.autologging.torch_operations import RootModules  # noqa: E402


class Told:
    """What the hooks tell, by the names of modules."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.roots = RootModules(self.teller("begins"), self.teller("ends"))

    def teller(self, what: str) -> Callable[[nn.Module], None]:
        return lambda module: self.events.append((what, type(module).__name__))

    def of(self, call: Callable[[], object]) -> list[tuple[str, str]]:
        """Return what a call has told."""
        self.events.clear()
        call()
        return list(self.events)


class Level(nn.Module):
    """A module around another one, which it calls if it is called itself."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x)
        return result


X = torch.ones(1, 1)


def nested(depth: int) -> tuple[nn.Module, nn.Module]:
    """Return a layer with ``depth`` levels around it, and the layer itself."""
    layer: nn.Module = nn.Linear(1, 1)
    outer = layer
    for _ in range(depth):
        outer = Level(outer)
    return outer, layer


def optimizer_with(*parameters: torch.Tensor) -> torch.optim.Optimizer:
    """Return an optimizer that trains nothing: making a real one imports torch's compiler, for seconds."""
    made = torch.optim.SGD.__new__(torch.optim.SGD)
    made.param_groups = [{"params": list(parameters)}]
    return made


def sgd(module: nn.Module) -> torch.optim.Optimizer:
    return optimizer_with(*module.parameters())


def test_of_a_module_that_is_called_the_begin_and_the_end_are_told() -> None:
    told, (model, _) = Told(), nested(1)
    told.roots.look_for_those_of(sgd(model))
    assert told.of(lambda: model(X)) == [("begins", "Level"), ("ends", "Level")]


def test_the_begin_is_told_before_hooks_of_the_programs() -> None:
    told, (model, _) = Told(), nested(1)
    model.register_forward_pre_hook(lambda *_: told.events.append(("hook", "")))
    told.roots.look_for_those_of(sgd(model))
    assert [what for what, _ in told.of(lambda: model(X))] == ["begins", "hook", "ends"]


def test_a_module_that_was_called_stays_watched_and_its_parts_are_not() -> None:
    told, (model, layer) = Told(), nested(1)
    optimizer = sgd(model)
    for _ in range(3):
        told.roots.look_for_those_of(optimizer)
        assert told.of(lambda: model(X)) == [("begins", "Level"), ("ends", "Level")]
    assert told.of(lambda: layer(X)) == []


def test_a_module_that_is_not_called_gives_way_to_its_parts_at_the_next_step() -> None:
    told, (model, layer) = Told(), nested(1)
    optimizer = sgd(model)
    told.roots.look_for_those_of(optimizer)
    assert told.of(lambda: layer(X)) == []
    told.roots.look_for_those_of(optimizer)
    assert told.of(lambda: layer(X)) == [("begins", "Linear"), ("ends", "Linear")]
    assert told.of(lambda: model(X)) == [("begins", "Linear"), ("ends", "Linear")]


@pytest.mark.parametrize(("depth", "is_found"), [(4, True), (5, False)])
def test_parts_are_looked_for_in_four_levels(depth: int, is_found: bool) -> None:
    told, (model, layer) = Told(), nested(depth)
    optimizer = sgd(model)
    for _ in range(depth + 1):
        told.roots.look_for_those_of(optimizer)
    assert bool(told.of(lambda: layer(X))) == is_found


def test_a_module_of_another_optimizer_is_not_watched() -> None:
    told, (model, _), (other, _) = Told(), nested(1), nested(1)
    told.roots.look_for_those_of(sgd(model))
    assert told.of(lambda: other(X)) == []


def test_one_that_shares_a_single_parameter_is_watched() -> None:
    told, model = Told(), nn.Linear(1, 1)
    told.roots.look_for_those_of(optimizer_with(model.bias))
    assert len(told.of(lambda: model(X))) == 2


def test_a_module_that_is_gone_has_no_parts() -> None:
    told, (model, _) = Told(), nested(1)
    optimizer = sgd(model)
    told.roots.look_for_those_of(optimizer)
    (watched,) = told.roots._uncalled[optimizer]
    del model
    gc.collect()
    told.roots.look_for_those_of(optimizer)
    assert watched.module() is None
    assert told.roots._uncalled[optimizer] == []


def test_a_copied_and_a_pickled_module_tell_nothing() -> None:
    told, model = Told(), nn.Linear(1, 1)
    told.roots.look_for_those_of(sgd(model))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert told.of(lambda twin=twin: twin(X)) == []  # type: ignore[misc]


def test_while_torch_compiles_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told, model = Told(), nn.Linear(1, 1)
    told.roots.look_for_those_of(sgd(model))
    monkeypatch.setattr(torch_operations, "is_compiling", lambda: True)
    assert told.of(lambda: model(X)) == []
