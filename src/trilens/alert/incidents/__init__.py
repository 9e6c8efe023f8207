"""Symptoms that have one cause become one incident."""
