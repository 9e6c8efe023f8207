"""Training frameworks that drive the loop themselves: each tells its steps through its own callbacks."""
