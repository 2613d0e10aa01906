"""The loop of all fits: passes, progress, checkpoints, resuming."""
