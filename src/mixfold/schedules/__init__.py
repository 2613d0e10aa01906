"""Schedules of step sizes, one per file."""
