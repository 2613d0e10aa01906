"""Sources of rows, one per file."""

# modules for other packages, without a registered class
HELPER_MODULES = (
    "csv_files",
    "dates",
    "following",
    "grouped",
    "kept_columns",
    "labelled",
    "location",
    "object_source",
    "opening",
    "optional_arrow",
    "paths",
    "remote_files",
    "table",
    "unusual_columns",
)
