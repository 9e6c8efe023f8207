"""A simulated cluster over real HTTP: what an API server, exporters and programs would answer."""
