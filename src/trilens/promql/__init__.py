"""PromQL: parse, plan, evaluate. Knows no table, only the Protocol it reads through (source.py)."""
