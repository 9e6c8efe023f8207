"""Records on their way to the server: onto a spool on this machine first, from there over HTTP."""

from trilens.sdk.outbox.line import Header
from trilens.sdk.outbox.outbox import Outbox, Standing

__all__ = ["Header", "Outbox", "Standing"]
