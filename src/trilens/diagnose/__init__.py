"""Why something is wrong. Pure logic over a case file: the same from a live cluster and from a bundle."""
