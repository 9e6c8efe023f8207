"""For programs that train with Lightning: `callbacks=[TrilensCallback()]`."""

from trilens.sdk.frameworks.lightning import TrilensCallback

__all__ = ["TrilensCallback"]
