"""Exponential families, one per file."""

# modules that other packages use, without a class to be found by name
HELPER_MODULES = ("factor_analysis", "mean_params")
