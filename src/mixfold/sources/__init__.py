"""Sources of rows, one per file."""

# modules for other packages, without a registered class
HELPER_MODULES = ("csv_files", "grouped", "location", "object_source", "opening", "paths", "table")
