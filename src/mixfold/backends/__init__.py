"""Backends, which compute E-steps: the cores of this machine, or a GPU."""
