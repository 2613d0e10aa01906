"""Mutants: one change of a module at a time, and whether the tests notice it."""
