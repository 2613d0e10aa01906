"""Learners, one per file."""

# modules that register no learner
HELPER_MODULES = (
    "candidates",
    "changed_family",
    "further_search",
    "neighbouring_starts",
    "prior_choice",
    "search",
    "variational_learning",
)
