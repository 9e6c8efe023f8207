"""Verdicts against a labelled set: is the cause right, and is a wrong one ever told as if it were sure."""
