"""Learners, one per file."""

# modules that register no learner
HELPER_MODULES = ("further_search", "prior_choice", "search")
