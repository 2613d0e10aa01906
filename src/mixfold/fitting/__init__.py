"""The only loop: passes, progress, checkpoints, resuming."""
