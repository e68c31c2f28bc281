"""The task of the torchrun examples: Python's manual, and a small transformer that learns to write it."""

from __future__ import annotations

from collections.abc import Iterator
from pydoc_data.topics import topics  # what help("for") prints; half a million characters

import torch
from torch import Tensor, nn

CHARACTERS = 128
"""Those of ASCII. The few others in the text become question marks."""

CONTEXT = 64
"""Characters that the model sees at once."""

Batch = tuple[Tensor, Tensor]
"""Characters, int64 of shape (N, CONTEXT), and the one that follows on each of them, alike."""


def train_and_held_out_text() -> tuple[Tensor, Tensor]:
    """What to learn from and what to test with, int64 of shape (characters,); the same in every process."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    characters = torch.tensor(list(text.encode("ascii", errors="replace")))
    held_out = len(characters) // 10
    return characters[:-held_out], characters[-held_out:]


def random_batches(text: Tensor, size: int, rank: int, device: torch.device) -> Iterator[Batch]:
    """Pieces of ``text`` without end, ``size`` at a time; other ones on each rank."""
    generator = torch.Generator().manual_seed(rank)
    while True:
        first = torch.randint(len(text) - CONTEXT, (size, 1), generator=generator)
        inputs = first + torch.arange(CONTEXT)
        yield text[inputs].to(device), text[inputs + 1].to(device)


class TextTransformer(nn.Module):
    """Characters of shape (N, T), T up to CONTEXT, to logits of those that follow, (N, T, CHARACTERS)."""

    def __init__(self, width: int = 64, depth: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CHARACTERS, bias=False)

    def forward(self, text: Tensor) -> Tensor:
        x = self.characters(text) + self.positions.weight[: text.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Block(nn.Module):
    """Each position looks at those before it, and then thinks about what it saw."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project_in(x).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project_out(seen.transpose(1, 2).flatten(2))


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    """Mean cross entropy of a character, in nats; log(CHARACTERS), 4.85, if the model knows nothing."""
    inputs, targets = batch
    return nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
