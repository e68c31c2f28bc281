"""On one process: a child that was forked while its parent uses the device."""

from __future__ import annotations

import os

import torch
from _scenarios import run


def child() -> str:
    torch.ones(1, device="asyncdev")
    torch.asyncdev.spin(0)
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            torch.asyncdev.synchronize()
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return pipe.read()


if __name__ == "__main__":
    run(globals())
