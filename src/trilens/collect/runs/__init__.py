"""What programs tell of their runs, taken in: `wire` reads it, `intake` orders it, `sink` keeps it."""
