"""What may keep a server from seeing, by layer: asked of its own API, from outside or within."""
