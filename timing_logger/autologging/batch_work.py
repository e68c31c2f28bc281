"""How much a batch of data is: the work of the row in which it was loaded, from its shapes alone.

No value of a tensor is looked at, so nothing waits for a device. Tokens that only pad a sequence count, since
they are computed like the others. To be imported where torch is already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, int8, int16, int32, int64, uint8
from torch import dtype as DType

_INTEGERS: frozenset[DType] = frozenset({int8, int16, int32, int64, uint8})
_MOST_PARTS = 16  # that are looked at: a batch of thousands of loose tensors would take too long


def work_of(batch: object) -> int | None:
    """Return the number of elements of the largest tensor of whole numbers in a batch, such as token ids.

    Where there is none of two dimensions or more, as with images and labels, it is the number of samples:
    the length of the largest tensor.

    Returns:
        None where there is no tensor in the batch, or in a list, tuple or mapping in it.
    """
    n_tokens = n_most = 0
    n_samples = None
    for part in _parts(batch):
        for tensor in (part,) if isinstance(part, Tensor) else _parts(part):
            if isinstance(tensor, Tensor) and (n_dimensions := tensor.dim()):
                size = tensor.numel()
                if size > n_tokens and n_dimensions > 1 and tensor.dtype in _INTEGERS:
                    n_tokens = size
                if size > n_most:
                    n_most, n_samples = size, tensor.shape[0]
    return n_tokens or n_samples


def _parts(of: object) -> Sequence[object]:
    """Return the first things that a list, tuple or mapping holds; a tensor itself; of anything else none."""
    if isinstance(of, Tensor):
        return (of,)
    if isinstance(of, (list, tuple)):
        return of[:_MOST_PARTS]
    return list(of.values())[:_MOST_PARTS] if isinstance(of, Mapping) else ()
