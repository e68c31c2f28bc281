"""What the kernel states of InfiniBand ports."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_files import KernelFiles, read

from timing_logger.recording.watchers import apart
from timing_logger.recording.watchers.host_sampler import infiniband_source


def test_all_ports_are_added_and_words_are_four_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "PATIENCE_S", 30.0)
    kernel = KernelFiles(tmp_path)
    for device in ("mlx5_0", "mlx5_1"):
        for name, value in (
            ("port_rcv_data", 1000),
            ("port_xmit_data", 500),
            ("link_downed", 2),
            ("symbol_error", 1),
        ):
            kernel.write(f"sys/class/infiniband/{device}/ports/1/counters/{name}", f"{value}\n")
    source = infiniband_source(kernel.roots)
    assert read(source) == {"ib_received_kb": 8, "ib_sent_kb": 4, "ib_errors": 6}
    assert isinstance(source, apart.Apart)
    source.close()


def test_a_host_without_a_port_says_so(tmp_path: Path) -> None:
    source = infiniband_source(KernelFiles(tmp_path).roots)
    assert read(source) == {}
    assert source.why == "the host has no InfiniBand port"
