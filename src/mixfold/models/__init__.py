"""Latent-variable models a learner can fit."""

# modules for other packages, without a registered class
HELPER_MODULES = (
    "assignment",
    "clustering",
    "column_scaling",
    "conditioning",
    "constrained_mixture",
    "constraints",
    "crossed_moments",
    "directions",
    "estimate_covariance",
    "estimates",
    "fixed",
    "gaussian_effects",
    "imputation",
    "information",
    "labelled",
    "limits_from_data",
    "merged_groups",
    "narrow_groups",
    "penalized_mixture",
    "profiled_deviance",
    "random_effects",
    "residual_errors",
    "subject_rows",
    "variance_errors",
)
