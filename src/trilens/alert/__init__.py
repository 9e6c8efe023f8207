"""Rules: read, evaluated and recorded."""
