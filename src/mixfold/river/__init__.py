"""Mixtures with the interface of river."""
