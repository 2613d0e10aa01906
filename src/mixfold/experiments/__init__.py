"""The papers' studies."""
