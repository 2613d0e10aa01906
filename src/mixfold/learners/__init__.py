"""Learners, one per file."""

# modules that register no learner
HELPER_MODULES = ("changed_family", "further_search", "prior_choice", "search")
