"""Money: prices, which GPU-second was whose and for what, and how it all adds up to the bill."""
