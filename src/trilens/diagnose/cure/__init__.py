"""What could be done about a cause, and what each deed changes."""
