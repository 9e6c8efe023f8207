"""The answers of a server as tables and plots, for people who live in notebooks (docs/client.md)."""

from trilens.client.client import Client
from trilens.client.lineage import Lineage
from trilens.client.why import Why

__all__ = ["Client", "Lineage", "Why"]
