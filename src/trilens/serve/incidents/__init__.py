"""Incidents at work: fed by rules and detection, kept, told on, and asked for."""
