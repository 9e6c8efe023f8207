"""What `trilens doctor` looks at beside a server: this machine, and bundles."""
