"""What records have in common, and when code in C is told of it: the core in use is of no account here."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from both_cores import CORES

from timing_logger.recording.context import Context
from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.cores.core import Core
from timing_logger.recording.sampling import StepPolicy

State = tuple[bool, "int | None", "int | None", "float | None", bool]


class Told(Context):
    """Remembers each state that it would tell code in C."""

    _core: ClassVar[Core] = CORES["python"].classes

    def __init__(self) -> None:
        self.told: list[State] = []
        super().__init__(StepPolicy(record_every_n_steps=2), Channel(8))

    def _note_state(self) -> None:
        self.told.append((self.recording, self._iteration, self._epoch, self._work, self._has_labels))


@pytest.fixture
def context() -> Told:
    context = Told()
    context._switch_on()
    return context


def test_it_records_from_when_it_is_switched_on() -> None:
    context = Told()
    assert (context.enabled, context.recording, context.told) == (False, False, [])
    context._switch_on()
    assert (context.enabled, context.recording) == (True, True)
    assert context.told == [(True, None, None, None, False)]


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (lambda context: context.set_current_iteration(4), (True, 4, None, None, False)),
        (lambda context: context.set_current_iteration(3), (False, 3, None, None, False)),
        (lambda context: context.set_current_epoch(2), (True, None, 2, None, False)),
        (lambda context: context.set_current_work(8.5), (True, None, None, 8.5, False)),
        (lambda context: context.label("layer1").__enter__(), (True, None, None, None, True)),
    ],
    ids=["iteration", "iteration left out", "epoch", "work", "label"],
)
def test_code_in_c_is_told_of_each_change(
    context: Told, change: Callable[[Context], object], state: State
) -> None:
    change(context)
    assert context.told[1:] == [state]


def test_of_labels_code_in_c_is_told_only_that_there_are_any(context: Told) -> None:
    for _ in range(3):
        with context.label("layer1"), context.label("layer2"):
            pass
    assert len(context.told) == 2


def test_an_iteration_is_set_or_not(context: Told) -> None:
    assert not context.has_iteration
    context.set_current_iteration(0)
    assert context.has_iteration


def test_a_label_that_names_a_layer_is_in_force_in_its_block_alone(context: Told) -> None:
    assert not context.labelled
    with context.label("layer1"):
        assert context.labelled
        with context.label("", "dense"):
            assert not context.labelled
        assert context.labelled
    assert not context.labelled


def test_whatever_is_no_text_names_a_layer(context: Told) -> None:
    with context.label(None):  # type: ignore[arg-type]
        assert context.labelled


def test_a_label_ends_with_its_block_also_by_an_error(context: Told) -> None:
    with pytest.raises(KeyError), context.label("layer1"):
        raise KeyError
    assert not context.labelled


def test_a_switched_off_context_has_methods_that_record_nothing(context: Told) -> None:
    context._switch_off()
    assert {name for name in vars(context) if name.startswith("record_")} == {
        "record_mpi_operation", "record_device_operation", "record_timing", "record_interval",
    }  # fmt: skip


def test_the_python_core_records_nothing_in_c(context: Told) -> None:
    assert context.recording_in_c() is None
