"""Agents on other machines, and on this one, as the server asks them."""
