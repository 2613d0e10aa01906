"""Step number to step size, one per file."""
