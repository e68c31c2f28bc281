"""Trains a compiled model with DDP; it knows nothing of being timed. The ranks named are given new shapes.

For each new length of a batch, torch compiles the model again. Arguments: these ranks.
"""

import sys

import torch
import torch._dynamo
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, USUAL_LENGTH = 20, 8

torch._dynamo.config.recompile_limit = STEPS + 1
dist.init_process_group("gloo")
world = dist.group.WORLD  # torch aborts now and then if a thread of gloo lets go of a group last
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 4))
compiled = torch.compile(net, backend="eager", dynamic=False)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net

    def forward(self, values):
        return compiled(values)


model = DistributedDataParallel(Model())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
has_new_shapes = str(dist.get_rank()) in sys.argv[1:]
for step in range(STEPS):
    optimizer.zero_grad()
    length = USUAL_LENGTH + (step if has_new_shapes else 0)
    model(torch.ones(length, 16)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
