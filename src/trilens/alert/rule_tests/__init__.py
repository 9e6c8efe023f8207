"""Unit tests of rules, in the files that `promtool test rules` reads."""
