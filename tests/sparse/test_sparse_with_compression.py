"""DistributedOptimizer with compressed gradients, on real ranks."""

from __future__ import annotations

from typing import Any

import pytest
from mpi_runner import run_on_ranks

pytestmark = pytest.mark.slow("training in many ways; its all-reduces have tests of their own by day")

Results = list[dict[str, Any]]
SPARSE = ("topk", "gtopk", "oktopk")


@pytest.fixture(scope="module", params=[1, 3], ids="{} ranks".format)
def ranks(request: pytest.FixtureRequest) -> Results:
    """What each rank found out in ``mpi_programs/compressed_training.py``."""
    return run_on_ranks(request.param, "compressed_training.py").results


def test_all_ranks_hold_the_same_parameters(ranks: Results) -> None:
    for rank in ranks:
        assert rank["beside_dense"]["same"] == ranks[0]["beside_dense"]["same"]


def test_where_everything_is_picked_training_is_as_without_compression(ranks: Results) -> None:
    distance = ranks[0]["beside_dense"]["distance"]
    assert distance["none"] == 0.0
    assert all(distance[f"{name}, all"] < 1e-6 for name in SPARSE)


def test_fp16_stays_within_its_rounding(ranks: Results) -> None:
    assert 0 < ranks[0]["beside_dense"]["distance"]["fp16"] < 1e-4


def test_where_some_is_picked_training_goes_the_same_way(ranks: Results) -> None:
    distance, moved = ranks[0]["beside_dense"]["distance"], ranks[0]["beside_dense"]["moved"]
    assert all(0 < distance[f"{name}, some"] < moved for name in SPARSE)


def test_rows_name_layer_and_phase_of_every_step_of_the_way(ranks: Results) -> None:
    exchange = {"topk": "ALLGATHER", "gtopk": "BCAST", "oktopk": "ALLTOALLV"}
    for name in SPARSE:
        rows = {tuple(row) for row in ranks[0]["rows"][name]}
        layer = "2.weight"
        assert rows > {(op, layer, "sparse") for op in ("COMPRESS", "DECOMPRESS", "ALLREDUCE", "WAIT")}
        assert ("ALLGATHER", layer, "sparse agreement") in rows
        if len(ranks) > 1:
            assert {(exchange[name], layer, f"sparse {what}") for what in ("values", "indices")} < rows


def test_with_its_residuals_training_resumes_as_if_it_had_not_stopped(ranks: Results) -> None:
    for rank in ranks:
        whole, in_two_parts = rank["resumed"]
        assert whole == in_two_parts


def test_a_gradient_that_is_not_finite_stops_all_ranks_at_once(ranks: Results) -> None:
    last = len(ranks) - 1
    for me, rank in enumerate(ranks):
        for name in SPARSE:
            for kind, message, _ in rank["not_finite"][name]:
                assert kind == "ReductionError"
                assert "NaN or infinite" in message
                assert (f"rank {last} cannot take part" in message) == (me != last)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "dense with top-k",
            "compressor is TopK(0.1), and the dense all-reduce wants NoCompression() or FP16()",
        ),
        ("top-k without", "compressor is NoCompression(), and the topk all-reduce wants TopK(density)"),
        ("unknown", "no all-reduce 'ring': use one of ['dense', 'gtopk', 'oktopk', 'topk']"),
        ("a class", "wants TopK(density)"),
    ],
)
def test_settings_that_do_not_fit_are_errors_at_construction(
    ranks: Results, setting: str, message: str
) -> None:
    for rank in ranks:
        kind, text, _ = rank["wrong_settings"][setting]
        assert kind == "ConfigurationError"
        assert message in text


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("different densities", "compression differs between ranks: 'TopK(0.2)' on rank 0 and 'TopK(0.1)'"),
        ("different all-reduces", "allreduce differs between ranks: 'topk' on rank 0 and 'gtopk' on rank 1"),
        ("different buckets", "bucket_bytes differs between ranks: 1000 on rank 0 and 1001 on rank 1"),
    ],
)  # fmt: skip
def test_ranks_with_different_settings_all_learn_of_it(ranks: Results, setting: str, message: str) -> None:
    for rank in ranks:
        raised = rank["wrong_settings"][setting]
        if len(ranks) == 1:
            assert raised == []
        else:
            assert raised[0] == "ConfigurationError"
            assert message in raised[1]


def test_a_disabled_logger_gets_no_rows(ranks: Results) -> None:
    assert all(rank["off"] == 0 for rank in ranks)
