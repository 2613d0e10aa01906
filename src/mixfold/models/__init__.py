"""Latent-variable models a learner can fit."""

# modules for other packages, without a registered class
HELPER_MODULES = (
    "assignment",
    "clustering",
    "column_scaling",
    "conditioning",
    "crossed_moments",
    "dense_rows",
    "directions",
    "estimate_covariance",
    "estimates",
    "gaussian_effects",
    "imputation",
    "information",
    "limits_from_data",
    "merged_components",
    "merged_groups",
    "narrow_groups",
    "profiled_deviance",
    "random_effects",
    "residual_errors",
    "subject_rows",
    "variance_errors",
)
