"""Values and protocols; imports NumPy only."""
