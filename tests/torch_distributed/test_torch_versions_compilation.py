"""What torch.compile is kept from compiling: the methods of a class, and not those that it inherits."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.torch_distributed._torch_versions import (  # noqa: E402
    leave_uncompiled,
    not_compiled,
)


def is_left_uncompiled(function: object) -> bool:
    return getattr(function, "_torchdynamo_disable", False)


class Inherited:
    """A class with a method."""

    def inherited(self) -> None:
        """Do nothing."""


class Own(Inherited):
    """A class with a method of its own, and a value."""

    value = 3

    def own(self) -> None:
        """Do nothing."""


def test_the_methods_that_a_class_defines_are_left_uncompiled() -> None:
    leave_uncompiled(Own)
    assert is_left_uncompiled(Own.own)
    assert not is_left_uncompiled(Own.inherited)


def test_a_function_that_is_left_uncompiled_is_itself_and_so_is_what_it_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames = torch._C._dynamo.eval_frame
    if not hasattr(frames, "set_code_exec_strategy"):
        pytest.skip("this torch has no strategies of frames")
    told: list[tuple[object, object, object]] = []
    monkeypatch.setattr(
        frames,
        "set_code_exec_strategy",
        lambda code, strategy: told.append((code, strategy.cur_action, strategy.recursive_action)),
    )

    def function() -> None:
        """Do nothing."""

    assert not_compiled(function) is function
    assert is_left_uncompiled(function)
    assert told == [(function.__code__, frames._FrameAction.SKIP, frames._FrameAction.SKIP)]
