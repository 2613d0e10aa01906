"""Latent-variable models a learner can fit."""

# modules for other packages, without a registered class
HELPER_MODULES = (
    "assignment",
    "column_scaling",
    "gaussian_effects",
    "limits_from_data",
    "random_effects",
    "residual_errors",
    "subject_rows",
)
