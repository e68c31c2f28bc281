"""Trains a small model with DDP; it knows nothing of being timed.

Arguments: by how many s rank 1 is late; how many s a batch takes all ranks (0); how many steps (40).
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

LATE_S = float(sys.argv[1])
USUAL_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
STEPS = int(sys.argv[3]) if len(sys.argv) > 3 else 40
BATCH = 8


class Numbers(Dataset):
    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        if i % BATCH == 0:
            time.sleep(USUAL_S + LATE_S * (os.environ["RANK"] == "1"))
        values = torch.arange(16, dtype=torch.float32) * (i + 1) % 7
        return values, int(values.sum()) % 4


dist.init_process_group("gloo")
world = dist.group.WORLD  # torch aborts now and then if a thread of gloo lets go of a group last
torch.manual_seed(1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(Numbers(), batch_size=BATCH):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
if dist.get_rank() == 0:
    print("loss", loss.item(), flush=True)
    print("trained for", STEPS, "steps", file=sys.stderr, flush=True)
dist.destroy_process_group()
