"""Change in a stream of numbers, one detector per file."""
