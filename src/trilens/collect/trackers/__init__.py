"""Experiment trackers, read: servers over HTTP, folders of files."""
