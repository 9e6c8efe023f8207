"""The ledger as a FOCUS 1.2 data set (FinOps Open Cost and Usage Specification): docs/focus.md."""
