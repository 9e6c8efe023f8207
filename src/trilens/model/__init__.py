"""Value types and errors that every other folder shares; imports nothing of ours."""
