"""What is typed as the value of an option is taken as it is meant, or refused with what to type."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest

from timing_logger.cli import option_values
from timing_logger.cli.option_values import CHANGES, ENDS, MOST_PORT, VERDICTS, some_of


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (option_values.keys, "layer,rank", ["layer_name", "rank"]),
        (option_values.keys, "run", ["incarnation"]),
        (some_of(VERDICTS), "rank,hang", ["rank", "hang"]),
        (some_of(ENDS), "unfinished", ["unfinished"]),
        (some_of(CHANGES), "regressed,improved", ["regressed", "improved"]),
        (option_values.part, "5%", 0.05),
        (option_values.part, "0.05", 0.05),
        (option_values.part, "0", 0.0),
        (option_values.part, "999.9%", 9.999),
        (option_values.ranks, "0,2,8-10", {0, 2, 8, 9, 10}),
        (option_values.ranks, "3-3", {3}),
        (option_values.iterations, "100:200", slice(100, 200)),
        (option_values.iterations, "100:", slice(100, None)),
        (option_values.iterations, ":200", slice(None, 200)),
        (option_values.iterations, "0:", slice(0, None)),
        (option_values.run, "last", "latest"),
        (option_values.run, "all", "all"),
        (option_values.run, "12", 12),
        (option_values.seconds, "0.5", 0.5),
        (option_values.count, "999999999", 999_999_999),
        (option_values.port, "0", 0),
        (option_values.port, str(MOST_PORT), MOST_PORT),
    ],
)
def test_a_value_is_taken_as_it_is_meant(parse: Callable[[str], Any], text: str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (option_values.keys, "rank,rank", "name each once, of operation, rank,"),
        (option_values.keys, "run,incarnation", "name each once"),
        (option_values.keys, "colour", "name each once"),
        (some_of(VERDICTS), "rank,", "name each once"),
        (some_of(ENDS), "rank", "of hang, unfinished"),
        (some_of(CHANGES), "hang", "of regressed, improved, undecided"),
        (option_values.part, "1000%", "say a percentage from 0% to below 1000%"),
        (option_values.part, "-1%", "say a percentage"),
        (option_values.part, "five", "say a percentage"),
        (option_values.ranks, "0;2", "such as 0,2,8-15"),
        (option_values.ranks, "0,5-3", "say the lower rank of 5-3 first"),
        (option_values.iterations, "100", "say A:B"),
        (option_values.run, "0", "such as 2"),
        (option_values.run, "first", "such as 2"),
        (option_values.seconds, "0", "above 0"),
        (option_values.seconds, "inf", "above 0"),
        (option_values.seconds, "soon", "above 0"),
        (option_values.count, "0", "above 0"),
        (option_values.count, "1000000000", "above 0"),
        (option_values.port, str(MOST_PORT + 1), "0 to 65535"),
        (option_values.port, "logs", "the folder comes before"),
    ],
)
def test_another_value_is_refused_with_what_to_type(
    parse: Callable[[str], Any], text: str, said: str
) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=said) as refused:
        parse(text)
    assert str(refused.value).startswith(repr(text))


def test_a_repair_is_refused_with_what_to_type() -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        option_values.fix("rank=x")
    assert not str(refused.value).startswith("fix: ")
