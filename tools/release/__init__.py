"""What a release is checked for, and what goes with it: `python -m tools.release`, docs/releasing.md."""
