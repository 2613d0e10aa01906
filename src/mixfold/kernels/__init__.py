"""E-steps and sequential updates."""
