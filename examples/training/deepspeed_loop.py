"""DeepSpeed: the engine is the model that is watched, its optimizer is found behind it.

    deepspeed examples/training/deepspeed_loop.py
    torchrun --nproc-per-node 1 examples/training/deepspeed_loop.py        # without a GPU

Without a GPU, DeepSpeed compiles an extension for communication on its first run: that takes a C++ compiler
and most of a minute, once.
"""

import deepspeed
import torch
from torch.utils.data import TensorDataset

import trilens

torch.manual_seed(0)
x = torch.randn(64, 8)
data = TensorDataset(x, x.sum(dim=1, keepdim=True))
model = torch.nn.Linear(8, 1)
engine, optimizer, loader, _ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    training_data=data,
    config={
        "train_micro_batch_size_per_gpu": 8,
        "gradient_accumulation_steps": 2,
        "optimizer": {"type": "Adam", "params": {"lr": 0.05, "torch_adam": True}},
        "zero_optimization": {"stage": 0},
    },
)

run = trilens.init(experiment="examples", name="deepspeed")
run.watch(engine, optimizer)
for inputs, targets in run.data(loader):
    inputs, targets = inputs.to(engine.device), targets.to(engine.device)
    loss = (engine(inputs) - targets).pow(2).mean()
    run.log(loss=loss)
    engine.backward(loss)
    engine.step()  # steps the optimizer every second time: that ends a step of the run
run.finish()
