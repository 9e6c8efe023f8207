"""Detection at work: scenes made of what the server knows, looked at every few seconds, findings told on."""
