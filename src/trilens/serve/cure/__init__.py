"""Doing what was proposed, as the policy allows, with a record of it."""
