"""What the names of torch's operations, kernels, types, copies and annotations mean."""

from __future__ import annotations

import pytest

from timing_logger.importing.kineto_names import (
    annotated,
    bytes_of_type,
    collective,
    copy_operation,
    is_communication_kernel,
    kernel_operation,
    thread_name,
)


@pytest.mark.parametrize(
    ("n_bytes", "names"),
    [
        (1, "bool byte char uint8 int8 float8_e4m3fn float8_e5m2"),
        (2, "short int16 half float16 bfloat16"),
        (4, "int int32 float float32"),
        (8, "long int64 double float64"),
    ],
)
def test_a_type_has_the_bytes_of_its_elements_in_torch(n_bytes: int, names: str) -> None:
    assert {name: bytes_of_type(name) for name in names.split()} == dict.fromkeys(names.split(), n_bytes)


@pytest.mark.parametrize(
    ("name", "n_bytes"),
    [
        ("signed char", 1), ("unsigned char", 1), ("short int", 2), ("long int", 8), ("c10::Half", 2),
        ("BFloat16", 2), ("c10::complex<float>", None), ("ComplexFloat", 8), ("ComplexDouble", 16),
        ("quint4x2", None), (None, None),
    ],
)  # fmt: skip
def test_a_type_is_known_by_its_names_in_traces(name: object, n_bytes: int | None) -> None:
    assert bytes_of_type(name) == n_bytes


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("gloo:all_reduce", "ALLREDUCE"), ("c10d::allreduce_", "ALLREDUCE"), ("_allgather_base", "ALLGATHER"),
        ("c10d::_reduce_scatter_base_", "REDUCE_SCATTER"), ("all_to_allv", "ALLTOALLV"),
        ("recvAnySource", "RECV"), ("wait", None), (7, None),
    ],
)  # fmt: skip
def test_a_collective_is_known_by_each_of_its_names(name: object, operation: str | None) -> None:
    assert collective(name) == operation


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ALLREDUCE"),
        ("ncclKernel_ReduceScatter_RING", "REDUCE_SCATTER"),
        ("void ncclDevKernel_Broadcast_RING()", "BCAST"),
        ("ncclDevKernel_SendRecv(x)", None),
        ("rcclGenericKernel<1>", None),
        ("void rcclGenericKernel<1>", None),
    ],
)
def test_a_kernel_of_a_communication_library_may_tell_its_operation(name: str, operation: str | None) -> None:
    assert is_communication_kernel(name)
    assert kernel_operation(name) == operation


def test_another_kernel_is_none_of_a_communication_library() -> None:
    assert not is_communication_kernel("sgemm_128x64")


@pytest.mark.parametrize(
    ("kind", "operation"),
    [("HtoD", "H2D"), ("DtoH", "D2H"), ("DtoD", "D2D"), ("PtoP", "D2D"), ("HtoH", None)],
)
def test_a_copy_is_named_by_its_direction(kind: str, operation: str | None) -> None:
    assert copy_operation(f"Memcpy {kind} (Pinned -> Device)") == operation


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("enumerate(DataLoader)#Iter.__next__", ("DATA", "Iter.__next__")),
        ("Optimizer.step#SGD.step", ("OPTIMIZER", "SGD.step")),
        ("Optimizer.zero_grad#SGD.zero_grad", ("ZERO_GRAD", "SGD.zero_grad")),
        ("DistributedDataParallel.forward", ("FORWARD", "DistributedDataParallel")),
        ("load", ("LOAD", "")),
        ("load#images", ("LOAD", "images")),
        ("load (images)", ("LOAD", "images")),
        ("allreduce", ("ANNOTATED ALLREDUCE", "")),
        ("ProfilerStep#3", None),
        ("nccl:all_reduce", None),
    ],
)
def test_an_annotation_is_work_unless_a_backend_or_the_profiler_made_it(
    name: str, found: tuple[str, str] | None
) -> None:
    assert annotated(name) == found


def test_a_thread_has_the_name_that_the_system_knows() -> None:
    assert thread_name("thread 17 (pt_autograd_0)") == "pt_autograd_0"
    assert thread_name("loader") == "loader"
