"""`trilens top`: a live screen of what runs, how it is, and what it costs."""
