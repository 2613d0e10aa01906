"""Where rows come from, one per file."""
