"""Names that torch 2.12 gave to older functions, and what older torches lack."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

all_gather_single: Any = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
reduce_scatter_single: Any = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)

HAS_NEW_NAMES = hasattr(dist, "all_gather_single")
LACKING = () if HAS_NEW_NAMES else ("all_gather_single", "reduce_scatter_single", "all_to_all")
"""Collectives that this torch, or its gloo, does not have."""
