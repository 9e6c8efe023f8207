"""What a rank knows of the others: barriers that name who is missing, clocks; and a watchdog over steps."""
