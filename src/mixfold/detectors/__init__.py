"""Detectors of changes in a stream of numbers, one per file."""
