"""The command line: one file per command, each loading what it needs only when it runs."""
