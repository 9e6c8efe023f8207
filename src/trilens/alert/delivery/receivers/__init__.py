"""One file for each kind of receiver: how a message looks there, and how it gets there."""
