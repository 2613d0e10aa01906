"""Latent-variable models a learner can fit."""

# modules for other packages, without a registered class
HELPER_MODULES = (
    "assignment",
    "clustering",
    "column_scaling",
    "conditioning",
    "directions",
    "gaussian_effects",
    "imputation",
    "limits_from_data",
    "merged_groups",
    "narrow_groups",
    "random_effects",
    "residual_errors",
    "subject_rows",
)
