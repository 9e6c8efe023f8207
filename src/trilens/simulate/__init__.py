"""A GPU cluster that does not exist: for the demo, the tests and the benchmarks."""
