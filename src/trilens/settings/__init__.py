"""The one typed tree of settings, and the only code that reads the environment and config files."""
