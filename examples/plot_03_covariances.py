"""
# Shapes of covariance

The same three components of the iris data with full, tied, diagonal and spherical covariances,
and the agreement of the clusters with the three species (adjusted Rand index; 1 is perfect).
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from mixfold import Gaussian, Mixture

iris = load_iris()
figure, panels = plt.subplots(2, 2, figsize=(7, 6), sharex=True, sharey=True, layout="constrained")
for axes, covariance in zip(panels.flat, ("full", "tied", "diag", "spherical"), strict=True):
    model = Mixture(Gaussian(covariance), 3, n_init=5, random_state=0).fit(iris.data)
    cluster = model.predict(iris.data)
    agreement = adjusted_rand_score(iris.target, cluster)
    axes.scatter(iris.data[:, 2], iris.data[:, 3], c=cluster, s=14)
    axes.set_title(f"{covariance}: {agreement:.2f}")
for axes in panels[1]:
    axes.set_xlabel(iris.feature_names[2])
for axes in panels[:, 0]:
    axes.set_ylabel(iris.feature_names[3])
plt.show()
