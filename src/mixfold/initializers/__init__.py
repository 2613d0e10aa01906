"""Initializers, which draw initial parameters, one per file."""
