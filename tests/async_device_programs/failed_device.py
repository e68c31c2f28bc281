"""On one process: a device that has failed."""

from __future__ import annotations

import torch
from _scenarios import run


def failure() -> list[str]:
    """What is said at once, and for good."""
    torch.asyncdev.fail("an illegal address")
    said = []
    for _ in range(2):
        try:
            torch.asyncdev.synchronize()
        except RuntimeError as error:
            said.append(str(error))
    return said


if __name__ == "__main__":
    run(globals())
