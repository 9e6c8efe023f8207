"""Several servers of one Trilens: one works, the others pass requests on to it and wait for their turn."""
