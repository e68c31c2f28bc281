"""How much a batch of data is: the work of the row in which it was loaded, from its shapes alone.

No value of a tensor is looked at, so nothing waits for a device. Tokens that only pad a sequence count, since
they are computed like the others. To be imported where torch is already.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Sequence

from torch import Tensor, int8, int16, int32, int64, uint8
from torch import dtype as DType

_INTEGERS: frozenset[DType] = frozenset({int8, int16, int32, int64, uint8})
_FIRST = slice(16)  # parts are looked at: a batch of thousands of loose tensors would take too long


def work_of(batch: object) -> int | None:
    """Return the number of elements of the largest tensor of whole numbers in a batch, such as token ids.

    Where there is none of two dimensions or more, as with images and labels, it is the number of samples:
    the length of the largest tensor.

    Returns:
        None where there is no tensor in the batch, or in a list, tuple or dict in it; or where one has no
        shape, as nested tensors have none.
    """
    try:
        return _counted(batch)
    except Exception:  # of a tensor of a class of its own: it is no reason to time nothing more
        return None


def _counted(batch: object) -> int | None:
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
    """Return the first things that a list, tuple or dict holds; a tensor itself; of anything else none.

    What a subclass does when it is asked for its parts, such as loading them, is not set off.
    """
    if isinstance(of, Tensor):
        return (of,)
    if isinstance(of, tuple):
        return tuple.__getitem__(of, _FIRST)
    if isinstance(of, list):
        return list.__getitem__(of, _FIRST)
    if isinstance(of, UserDict):  # as the batches of Hugging Face's tokenizers
        of = vars(of).get("data")
    return list(dict.values(of))[_FIRST] if isinstance(of, dict) else ()
