"""Objects as the metrics that kube-state-metrics makes of them: its names, labels, types and values.

One file per group of kinds. What kube-state-metrics writes as 0 is written as 0 here, and what it leaves out
is left out: rules that were written for it must read the same.
"""
