"""Go templates as Prometheus offers them to alerting rules. `expand.py` is the door."""
