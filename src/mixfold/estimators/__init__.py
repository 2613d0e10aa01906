"""Estimators with the interface of scikit-learn."""

# modules that other packages use, without a class to be found by name
HELPER_MODULES = ("formula_nodes", "learned_effects", "merging", "saving")
