"""Exponential families, one per file."""

# modules for other packages, without a registered class
HELPER_MODULES = (
    "column_groups",
    "conditional_cells",
    "density_expressions",
    "distances",
    "factor",
    "factor_analysis",
    "incomplete_rows",
    "labelled_rows",
    "mean_params",
    "new_levels",
    "observed_columns",
    "observed_factors",
    "observed_gaussian",
    "observed_student_t",
    "observed_scores",
    "patterned_rows",
    "same_params",
    "scores",
)
