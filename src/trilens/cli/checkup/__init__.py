"""What `trilens doctor` looks at, by layer."""
