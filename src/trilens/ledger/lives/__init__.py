"""A rank's life as spans of buckets, by what its program told of its steps."""
