"""What a training or serving program imports: light, and never in its way."""
