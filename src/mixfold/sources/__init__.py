"""Where rows come from, one per file."""

# modules that other packages use, without a class to be found by name
HELPER_MODULES = ("csv_files", "grouped", "location", "object_source", "opening", "paths", "table")
