"""Latent-variable models a learner can fit."""

# modules that other packages use, without a class to be found by name
HELPER_MODULES = (
    "assignment",
    "column_scaling",
    "gaussian_effects",
    "random_effects",
    "residual_errors",
    "subject_rows",
)
