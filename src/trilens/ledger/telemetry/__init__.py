"""Held time without steps, by what GPUs, inference servers and pods said of themselves."""
