"""The parts of a training step become rows, without a change of what the program gets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks  # noqa: E402
from torch.utils.data.dataloader import _BaseDataLoaderIter  # noqa: E402

from timing_logger import TimingLogger  # noqa: E402
from timing_logger.autologging import session as session_module  # noqa: E402
from timing_logger.autologging.session import Session  # noqa: E402
from timing_logger.autologging.settings import Settings  # noqa: E402
from timing_logger.autologging.torch_operations import LeadingOptimizer, TorchOperations  # noqa: E402
from timing_logger.schema.record import Record  # noqa: E402
from timing_logger.sinks.memory import MemorySink  # noqa: E402


class Program:
    """A training whose parts are timed by a logger in memory."""

    def __init__(self, session: Session, logger: TimingLogger, sink: MemorySink) -> None:
        self.session = session
        self.operations = TorchOperations(session)
        self._logger, self._sink = logger, sink

    def rows(self) -> list[Record]:
        self._logger.flush()
        return list(self._sink.records)

    def told(self) -> list[tuple[str, int | None]]:
        """Return operation and iteration of each row."""
        return [(row.operation, row.iteration) for row in self.rows()]


@pytest.fixture
def session(tmp_path: Path, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(session_module, "get_timing_logger", lambda: logger)
    return Session(Settings(log_dir=str(tmp_path)))


@pytest.fixture
def program(session: Session, logger: TimingLogger, sink: MemorySink) -> Program:
    return Program(session, logger, sink)


def optimizer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer that trains nothing: making a real one imports torch's compiler, for seconds."""
    made = torch.optim.SGD.__new__(torch.optim.SGD)
    made.param_groups = [{"params": list(model.parameters())}]
    return made


def step(program: Program, optimizer: torch.optim.Optimizer) -> None:
    program.operations._optimizer_begins(optimizer)
    program.operations._optimizer_ends(optimizer)


# -- the optimizer -------------------------------------------------------------------------------------


def test_iterations_begin_at_0_and_end_with_steps(program: Program) -> None:
    optimizer = optimizer_of(torch.nn.Linear(1, 1))
    for _ in range(3):
        program.operations._pass_begins()
        program.operations._pass_ends("ok")
        step(program, optimizer)
    assert program.told() == [(name, n) for n in range(3) for name in ("BACKWARD", "OPTIMIZER")]


@pytest.mark.slow("a rarer optimizer; steps of usual ones are quick")
def test_the_step_of_another_optimizer_is_a_row_and_ends_no_iteration(program: Program) -> None:
    first, second = (optimizer_of(torch.nn.Linear(1, 1)) for _ in range(2))
    for optimizer in (first, second, first):
        step(program, optimizer)
    assert program.told() == [("OPTIMIZER", 0), ("OPTIMIZER", 1), ("OPTIMIZER", 1)]


@pytest.mark.parametrize(
    ("steps", "ends"),
    [("abb", "ab"), ("aabb", "aabb"), ("aabba", "aabb"), ("aabccb", "aabc"), ("aabbcc", "aabbcc")],
)
def test_after_two_steps_of_one_optimizer_a_new_one_leads_with_its_first(steps: str, ends: str) -> None:
    leading = LeadingOptimizer()
    optimizers = {name: optimizer_of(torch.nn.Linear(1, 1)) for name in set(steps)}
    assert "".join(name for name in steps if leading.ends_iteration(optimizers[name])) == ends


def test_nothing_starts_the_logger_before_the_first_part_of_a_step(program: Program) -> None:
    assert not program.session.has_logger
    step(program, optimizer_of(torch.nn.Linear(1, 1)))
    assert program.session.has_logger


def test_each_thread_has_its_own_open_parts(program: Program) -> None:
    program.operations._pass_begins()
    thread = threading.Thread(target=program.operations._pass_ends, args=("ok",))
    thread.start()
    thread.join()
    assert program.rows() == []
    program.operations._pass_ends("ok")
    assert program.told() == [("BACKWARD", 0)]


# -- forward and backward --------------------------------------------------------------------------------


def test_the_forward_pass_of_the_model_is_a_row_after_the_first_step(program: Program) -> None:
    model = torch.nn.Linear(1, 1)
    step(program, optimizer_of(model))
    model(torch.ones(1, 1))
    model.eval()
    model(torch.ones(1, 1))
    rows = program.rows()[1:]
    assert [(row.operation, row.phase) for row in rows] == [("FORWARD", "train"), ("FORWARD", "val")]


def test_a_backward_pass_is_a_row_and_returns_what_torch_returns(program: Program) -> None:
    timed = program.operations._timed_pass(lambda *args, **kwargs: (args, kwargs))
    assert timed(1, keep=True) == ((1,), {"keep": True})
    assert timed(2) == ((2,), {})
    assert program.told() == [("BACKWARD", 0), ("BACKWARD", 0)]


def test_a_pass_within_a_pass_is_part_of_its_row(program: Program) -> None:
    def outer() -> object:
        return inner()

    def run() -> str:
        return "of the checkpoint"

    inner, timed = program.operations._timed_pass(run), program.operations._timed_pass(outer)
    assert timed() == "of the checkpoint"
    assert len(program.rows()) == 1


def test_a_backward_pass_that_raises_is_a_row_with_the_error_and_the_next_is_well(program: Program) -> None:
    errors = iter([KeyError("a gradient")])

    def run() -> None:
        for error in errors:
            raise error

    timed = program.operations._timed_pass(run)
    with pytest.raises(KeyError):
        timed()
    timed()
    assert [row.status for row in program.rows()] == ["error:KeyError", "ok"]


def test_a_timed_pass_is_not_compiled(program: Program) -> None:
    timed: Any = program.operations._timed_pass(lambda: None)
    assert timed._torchdynamo_disable is True


# -- data ------------------------------------------------------------------------------------------------


def test_a_batch_is_a_row_of_the_time_that_it_took_and_is_handed_on(program: Program) -> None:
    timed = program.operations._timed_fetch(lambda loader: next(loader))
    assert timed(iter(["batch"])) == "batch"
    (row,) = program.rows()
    assert (row.operation, row.iteration, row.status, row.work) == ("DATA", 0, "ok", None)
    assert row.end_ns is not None
    assert row.start_ns is not None
    assert row.end_ns >= row.start_ns


def test_the_end_of_the_data_is_no_row(program: Program) -> None:
    timed = program.operations._timed_fetch(lambda loader: next(loader))
    with pytest.raises(StopIteration):
        timed(iter([]))
    assert program.rows() == []


def test_a_batch_that_cannot_be_loaded_is_a_row_with_the_error(program: Program) -> None:
    def fails(loader: object) -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        program.operations._timed_fetch(fails)(None)
    assert [(row.operation, row.status, row.work) for row in program.rows()] == [
        ("DATA", "error:OSError", None)
    ]


# -- attached to torch -----------------------------------------------------------------------------------


@pytest.fixture
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let torch be without hooks again after the test."""
    monkeypatch.setattr(_BaseDataLoaderIter, "__next__", _BaseDataLoaderIter.__next__)
    monkeypatch.setitem(vars(torch.autograd), "_engine_run_backward", torch.autograd._engine_run_backward)
    hooks = [_global_optimizer_pre_hooks, _global_optimizer_post_hooks]
    before = [dict(one) for one in hooks]
    yield
    for one, own in zip(hooks, before, strict=True):
        one.clear()
        one.update(own)


def trained() -> None:
    """Take two steps of a training, on two batches of three samples."""
    model = torch.nn.Linear(2, 1)
    optimizer = optimizer_of(model)
    for batch in torch.utils.data.DataLoader(torch.ones(6, 2), batch_size=3):  # type: ignore[arg-type,var-annotated]
        model(batch).sum().backward()
        for hook in (*_global_optimizer_pre_hooks.values(), *_global_optimizer_post_hooks.values()):
            hook(optimizer, (), {})


@pytest.mark.usefixtures("as_it_was")
def test_attached_to_torch_every_part_of_a_training_is_a_row(program: Program) -> None:
    program.operations.attach(torch)
    trained()
    first = [("DATA", 0), ("BACKWARD", 0), ("OPTIMIZER", 0)]
    assert program.told() == [*first, ("DATA", 1), ("FORWARD", 1), ("BACKWARD", 1), ("OPTIMIZER", 1)]


@pytest.mark.usefixtures("as_it_was")
@pytest.mark.parametrize(("wanted", "work"), [(True, 3), (False, None)])
def test_rows_of_batches_state_their_work_if_that_is_wanted(
    wanted: bool, work: int | None, tmp_path: Path, session: Session, logger: TimingLogger, sink: MemorySink
) -> None:
    session = Session(Settings(log_dir=str(tmp_path), batch_work=wanted))
    program = Program(session, logger, sink)
    program.operations.attach(torch)
    trained()
    assert {row.work for row in program.rows() if row.operation == "DATA"} == {work}


@pytest.mark.usefixtures("as_it_was")
def test_after_an_error_of_the_timing_the_training_goes_on_without_rows(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise ValueError("of the timing")

    record: Callable[[], None] = fails
    monkeypatch.setattr(program.operations, "_recording", record)
    program.operations.attach(torch)
    trained()
    assert program.session.broken
    assert program.rows() == []
