"""DistributedDataParallel: each rank tells of itself, all of one run.

    torchrun --nproc-per-node 2 examples/training/ddp.py

Rank, world size and the id of the run come from torchrun. `run.watch` times what gradient synchronisation was
not hidden behind the backward pass. Which samples a rank sees comes from its DistributedSampler.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import trilens

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
torch.manual_seed(0)
x = torch.randn(64, 8)
data = TensorDataset(x, x.sum(dim=1, keepdim=True))
sampler = DistributedSampler(data, shuffle=True)
loader = DataLoader(data, batch_size=8, sampler=sampler)
device = torch.device("cuda", dist.get_node_local_rank()) if torch.cuda.is_available() else None
model = DistributedDataParallel(torch.nn.Linear(8, 1, device=device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

run = trilens.init(experiment="examples", name="ddp")
run.watch(model, optimizer)
run.barrier(60)  # names the ranks that did not come, instead of hanging
for epoch in range(2):
    sampler.set_epoch(epoch)
    for inputs, targets in run.data(loader):
        with run.step():
            loss = (model(inputs.to(device)) - targets.to(device)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
run.finish()
dist.destroy_process_group()
