"""Trains in one process, with a model in a container that is never called, and keeps a pickled copy."""

import copy
import pickle
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Task(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))


torch.manual_seed(1)
task = Task()
optimizer = torch.optim.Adam(task.parameters())
data = TensorDataset(torch.arange(40.0).reshape(10, 4), torch.ones(10, 1))
for x, y in DataLoader(data, batch_size=1):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(task.model(x), y)
    loss.backward()
    optimizer.step()
if len(sys.argv) > 1:
    with open(sys.argv[1], "wb") as file:
        pickle.dump(copy.deepcopy(task), file)
print(loss.item().hex())
