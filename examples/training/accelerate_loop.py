"""Hugging Face Accelerate: `run.data` around the prepared loader, `run.watch` on the prepared model.

    accelerate launch --cpu examples/training/accelerate_loop.py

With gradient accumulation a step of the run is one of the optimizer: it begins with the first of its batches.
"""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import trilens

torch.manual_seed(0)
x = torch.randn(64, 8)
data = TensorDataset(x, x.sum(dim=1, keepdim=True))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
accelerator = Accelerator(gradient_accumulation_steps=2)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=8, shuffle=True))

run = trilens.init(experiment="examples", name="accelerate")
run.watch(model, optimizer)  # without run.step(): a step ends when the optimizer has stepped
for inputs, targets in run.data(loader):
    with accelerator.accumulate(model):
        loss = (model(inputs) - targets).pow(2).mean()
        run.log(loss=loss)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
run.finish()
