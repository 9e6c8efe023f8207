"""Simulated time through the parts of a server: without its sockets, and without waiting for the clock."""
