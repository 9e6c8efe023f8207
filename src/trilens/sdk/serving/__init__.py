"""What a program that serves a model tells of its requests. Public as `trilens.serving`."""
