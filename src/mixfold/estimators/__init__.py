"""Estimators with the interface of scikit-learn."""

# modules for other packages, without a registered class
HELPER_MODULES = (
    "bootstrap_test",
    "component_clusters",
    "formula_nodes",
    "learned_crossed",
    "learned_effects",
    "merging",
    "on_workers",
    "onnx_model",
    "saving",
)
