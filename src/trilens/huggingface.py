"""For programs that train with Hugging Face's Trainer: `callbacks=[TrilensCallback()]`."""

from trilens.sdk.frameworks.huggingface import TrilensCallback

__all__ = ["TrilensCallback"]
