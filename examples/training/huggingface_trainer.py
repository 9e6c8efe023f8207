"""Hugging Face Trainer: one callback.

    python examples/training/huggingface_trainer.py [OUTPUT_DIR]

Steps, phases, samples, loss, learning rate, gradient norm, evaluations and checkpoints come from the
Trainer; with `resume_from_checkpoint` the run is told from which one. Run it twice: the second time it goes
on where the first ended.
"""

import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from trilens.huggingface import TrilensCallback

OUTPUT = sys.argv[1] if len(sys.argv) > 1 else "trained"


class Counting(torch.utils.data.Dataset):
    """Sequences that count upwards: a tiny model learns them in seconds."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = (torch.arange(16) + index) % 32
        return {"input_ids": ids, "labels": ids}


torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16,
    )
)
last = get_last_checkpoint(OUTPUT) if Path(OUTPUT).is_dir() else None
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir=OUTPUT,
        run_name="counting",
        max_steps=6 if last is None else 8,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,  # a step is one step of the optimizer, over two batches
        learning_rate=1e-2,
        logging_steps=1,  # a loss for every step, instead of a mean over many
        logging_nan_inf_filter=False,  # the Trainer hides a NaN in the mean otherwise
        eval_strategy="steps",
        eval_steps=3,
        save_steps=3,
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
    ),
    train_dataset=Counting(),
    eval_dataset=torch.utils.data.Subset(Counting(), range(8)),
    callbacks=[TrilensCallback(experiment="examples")],
)
trainer.train(resume_from_checkpoint=last)
if torch.distributed.is_initialized():  # under torchrun
    torch.distributed.destroy_process_group()
