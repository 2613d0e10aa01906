"""Detectors of changes in a stream of numbers, one per file."""

HELPER_MODULES = ("river_detector",)
