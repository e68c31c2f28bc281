"""The task of the MPI examples: scikit-learn's handwritten digits, and a small CNN that classifies them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

IMAGES = 1797
"""The number of images in the data set."""

HELD_OUT = 360
"""How many of them are kept for testing."""


def digits_model() -> nn.Module:
    """Return a model from images of shape (N, 1, 8, 8) to ten logits each, of shape (N, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def train_and_test_digits() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return (images, labels) for training, and others for testing; every process gets the same split.

    Images are float32 of shape (N, 1, 8, 8) with values from 0 to 1, labels int64 of shape (N,).
    """
    digits = load_digits()
    order = np.random.default_rng(0).permutation(IMAGES)
    images = torch.tensor(digits.images[order] / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target[order], dtype=torch.int64)
    return (images[HELD_OUT:], labels[HELD_OUT:]), (images[:HELD_OUT], labels[:HELD_OUT])


def batches_per_rank(batch_size: int, size: int) -> int:
    """Return how many full batches a rank has per epoch, the same number on each of the ``size`` ranks."""
    return (IMAGES - HELD_OUT) // size // batch_size


def rank_batches(batch_size: int, rank: int, size: int, epoch: int) -> Iterator[Tensor]:
    """Yield the indices of this rank's batches, each of shape (batch_size,); no image goes to two ranks.

    All ranks shuffle the images in the same way, differently in each epoch, and take every ``size``-th one.
    """
    order = torch.randperm(IMAGES - HELD_OUT, generator=torch.Generator().manual_seed(epoch))
    share = order[rank::size]
    for batch in range(batches_per_rank(batch_size, size)):
        yield share[batch * batch_size : (batch + 1) * batch_size]


@torch.no_grad()
def loss_and_accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[float, float]:
    """Return the mean cross entropy, and the fraction of ``images`` that are classified correctly, 0 to 1."""
    logits = model(images)
    loss = nn.functional.cross_entropy(logits, labels)
    return loss.item(), (logits.argmax(dim=1) == labels).float().mean().item()
