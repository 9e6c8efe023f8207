"""Fully sharded data parallel (fully_shard), with a checkpoint that every rank writes its part of.

torchrun --nproc-per-node 2 examples/training/fsdp.py [FOLDER]
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import trilens

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "trained"

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", dist.get_node_local_rank())
    torch.cuda.set_device(device)
torch.manual_seed(0)
x = torch.randn(64, 8)
data = TensorDataset(x, x.sum(dim=1, keepdim=True))
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False))
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
for layer in model:
    if isinstance(layer, torch.nn.Linear):
        fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

run = trilens.init(experiment="examples", name="fsdp", total_steps=4)
run.watch(model, optimizer)
for inputs, targets in run.data(loader):
    with run.step():
        loss = (model(inputs.to(device)) - targets.to(device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log(loss=loss)
with run.checkpoint(FOLDER):
    dcp.save({"model": model.state_dict()}, checkpoint_id=FOLDER)
run.finish()
dist.destroy_process_group()
