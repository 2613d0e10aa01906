"""Exponential families, one per file."""
