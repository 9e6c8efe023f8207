"""Incidents and alerts, told to whom they concern, at least once."""
