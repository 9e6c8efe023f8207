"""The scoreboard of detection: how much is found, how soon, how rightly, and what is said for nothing."""
