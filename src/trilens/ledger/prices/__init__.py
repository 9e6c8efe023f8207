"""Prices: the book, its file, and what fits a machine."""
