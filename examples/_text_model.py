"""The task of the torchrun examples: the text of Python's manual, and a small transformer trained on it."""

from __future__ import annotations

from collections.abc import Iterator
from pydoc_data.topics import topics  # what help("for") prints; half a million characters

import torch
from torch import Tensor, nn

CHARACTERS = 128
"""The number of ASCII characters. The few other characters in the text become question marks."""

CONTEXT = 64
"""How many characters the model sees at once."""

Batch = tuple[Tensor, Tensor]
"""Characters, and the character that follows each of them; both are int64 of shape (N, CONTEXT)."""


def train_and_held_out_text() -> tuple[Tensor, Tensor]:
    """Return the text for training and the one for testing, int64 of shape (characters,).

    Every process gets the same split.
    """
    text = "\n\n".join(topics[name] for name in sorted(topics))
    characters = torch.tensor(list(text.encode("ascii", errors="replace")))
    held_out = len(characters) // 10
    return characters[:-held_out], characters[-held_out:]


def random_batches(text: Tensor, size: int, rank: int, device: torch.device) -> Iterator[Batch]:
    """Yield random pieces of ``text`` without end, ``size`` per batch, different ones on each rank."""
    generator = torch.Generator().manual_seed(rank)
    while True:
        first = torch.randint(len(text) - CONTEXT, (size, 1), generator=generator)
        inputs = first + torch.arange(CONTEXT)
        yield text[inputs].to(device), text[inputs + 1].to(device)


class TextTransformer(nn.Module):
    """A transformer from characters, (N, T), to logits of those that follow, (N, T, CHARACTERS).

    T is at most CONTEXT.
    """

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
    """A transformer block: causal attention, then an MLP, both with a residual connection."""

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
    """Causal multi-head self-attention."""

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
    """Return the mean cross entropy per character, in nats; an untrained model has log(CHARACTERS), 4.85."""
    inputs, targets = batch
    return nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
