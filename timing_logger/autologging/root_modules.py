"""Find the modules that a training step calls, and have their forward passes told."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from torch.compiler import is_compiling

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

_MOST_LEVELS = 4


class RootModules:
    """The outermost modules that hold an optimizer's parameters, as far as they are called.

    Only they get a hook. Hooks on all modules would cost a call for each layer, and ``torch.compile`` would
    have to compile them.

    Args:
        begins, ends: called with a module when its forward pass begins, and when it has ended well.
    """

    def __init__(self, begins: Callable[[nn.Module], None], ends: Callable[[nn.Module], None]) -> None:
        self._begins = begins
        self._ends = ends
        self._uncalled: weakref.WeakKeyDictionary[Optimizer, list[_Watched]] = weakref.WeakKeyDictionary()

    def look_for_those_of(self, optimizer: Optimizer) -> None:
        """Watch the modules of an optimizer that took a step.

        Those that were not called since its step before give way to the modules in them: a container, such as
        that of a framework, is never called itself.
        """
        if optimizer not in self._uncalled:
            self._uncalled[optimizer] = self._watched(_roots_with(_parameters_of(optimizer)), 0)
        elif uncalled := self._uncalled[optimizer]:
            self._uncalled[optimizer] = [
                below for watched in uncalled if not watched.was_called for below in self._below(watched)
            ]

    def _below(self, watched: _Watched) -> list[_Watched]:
        module = watched.let_go()
        if module is None or watched.level == _MOST_LEVELS:
            return []
        return self._watched(module.children(), watched.level + 1)

    def _watched(self, modules: Iterable[nn.Module], level: int) -> list[_Watched]:
        return [_Watched(module, level, self._begins, self._ends) for module in modules]


class _Watched:
    """A module whose forward passes are told."""

    def __init__(
        self,
        module: nn.Module,
        level: int,
        begins: Callable[[nn.Module], None],
        ends: Callable[[nn.Module], None],
    ) -> None:
        self.module = weakref.ref(module)
        self.level = level
        self.was_called = False

        def begun(module: nn.Module, *_: object) -> None:
            self.was_called = True
            begins(module)

        def ended(module: nn.Module, *_: object) -> None:
            ends(module)

        self._handles = [
            module.register_forward_pre_hook(_Hook(begun), prepend=True),
            module.register_forward_hook(_Hook(ended)),
        ]

    def let_go(self) -> nn.Module | None:
        """Watch the module no more, and return it."""
        for handle in self._handles:
            handle.remove()
        return self.module()


class _Hook:
    """A hook that neither a pickled nor a copied module keeps: there it is a function that does nothing."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __call__(self, module: nn.Module, *args: object) -> None:
        if not is_compiling():  # torch.compile, which follows calls into hooks, finds that nothing is done
            self._function(module, *args)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (nullcontext(), "__exit__")  # takes anything, and can be loaded without this package


def _parameters_of(optimizer: Optimizer) -> set[int]:
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def _roots_with(parameters: set[int]) -> list[nn.Module]:
    """Return the modules that hold some of these parameters (by ``id``) and are part of no other module."""
    from torch import nn

    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    parts = {id(part) for module in modules for part in vars(module).get("_modules", {}).values()}
    return [
        module
        for module in modules
        if id(module) not in parts and any(id(one) in parameters for one in module.parameters())
    ]
