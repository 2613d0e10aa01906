"""Latent-variable models a learner can fit."""

# modules for other packages, without a registered class
HELPER_MODULES = (
    "assignment",
    "clustering",
    "column_scaling",
    "conditioning",
    "corrected_intervals",
    "crossed_moments",
    "directions",
    "estimate_covariance",
    "estimates",
    "gaussian_effects",
    "imputation",
    "information",
    "limits_from_data",
    "merged_groups",
    "narrow_groups",
    "profiled_deviance",
    "random_effects",
    "residual_errors",
    "score_information",
    "stick_breaking",
    "subject_rows",
    "variance_errors",
    "variational_gaussian",
)
