"""Where parameters come from before any learning, one per file."""
