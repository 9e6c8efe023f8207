"""A PyTorch loop of one's own: five lines tell everything.

    python examples/training/plain_pytorch.py [FOLDER]

`run.watch` finds forward, backward and optimizer by hooks, and the learning rate. Everything else is told.
"""

import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

import trilens

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "trained")
FOLDER.mkdir(parents=True, exist_ok=True)

torch.manual_seed(0)
x = torch.randn(96, 8)
data = TensorDataset(x, x.sum(dim=1, keepdim=True))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

run = trilens.init(experiment="examples", name="plain-pytorch", config={"lr": 1e-2}, total_steps=12)
run.watch(model, optimizer)
for _epoch in range(2):
    for inputs, targets in run.data(loader):  # the wait for each batch, and which samples it has
        with run.step():
            loss = (model(inputs) - targets).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            run.log(loss=loss, grad_norm=norm)  # tensors: read later, so that a GPU is not waited for
    with run.validation() as validation, torch.no_grad():
        validation.log(loss=(model(x) - data.tensors[1]).pow(2).mean())
    with run.checkpoint(FOLDER / "model.pt"):  # of the last step; timed, and told as failed if it raises
        torch.save(model.state_dict(), FOLDER / "model.pt")
run.finish()
