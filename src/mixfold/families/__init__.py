"""Exponential families, one per file."""

# modules for other packages, without a registered class
HELPER_MODULES = ("factor_analysis", "mean_params")
