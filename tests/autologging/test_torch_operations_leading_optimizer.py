"""An iteration ends with a step of the optimizer that a program trains with just then."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")

from timing_logger.autologging.torch_operations import LeadingOptimizer  # noqa: E402


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD.__new__(torch.optim.SGD)  # without a parameter: nothing is trained


def counted(steps: str) -> str:
    """Return the steps, each by the letter of its optimizer, that end an iteration."""
    leading, optimizers = LeadingOptimizer(), {name: optimizer() for name in set(steps)}
    return "".join(name for name in steps if leading.ends_iteration(optimizers[name]))


def test_each_step_of_the_only_optimizer_ends_an_iteration() -> None:
    assert counted("aaaa") == "aaaa"


def test_of_two_that_are_stepped_in_turn_the_first_counts() -> None:
    assert counted("abababab") == "aaaa"


def test_of_many_that_are_stepped_in_turn_the_first_counts() -> None:
    assert counted("abcdabcdabcd") == "aaa"


def test_a_second_training_goes_on_counting_while_the_first_optimizer_is_alive() -> None:
    assert counted("aaaaa" + "bbbbb") == "aaaaabbbbb"


def test_a_return_to_the_first_optimizer_costs_one_step_at_most() -> None:
    assert counted("aaaa" + "bbbb" + "aaaa") == "aaaabbbbaaa"


def test_a_second_optimizer_that_joins_later_does_not_double_the_iterations() -> None:
    assert len(counted("aaaaa" + "ab" * 10)) == pytest.approx(15, abs=1)


def test_the_optimizer_of_many_critic_steps_counts_and_not_the_other() -> None:
    assert counted("cccccg" * 4).count("c") >= 4 * 4


def test_an_optimizer_that_is_gone_leads_no_more() -> None:
    leading, first = LeadingOptimizer(), optimizer()
    assert leading.ends_iteration(first)
    del first
    gc.collect()
    second = optimizer()
    assert [leading.ends_iteration(second) for _ in range(3)] == [True, True, True]
