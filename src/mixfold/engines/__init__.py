"""Where E-steps run."""
