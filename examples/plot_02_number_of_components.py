"""
# How many components?

The Bayesian information criterion against the number of components, for the chemistry of 178
wines of three cultivars. The smallest value chooses the model.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from mixfold import Gaussian, Mixture

rows = StandardScaler().fit_transform(load_wine().data)
numbers = range(1, 7)

figure, axes = plt.subplots(layout="constrained")
for covariance in ("full", "tied", "diag", "spherical"):
    family = Gaussian(covariance, reg_covar=1e-3)
    models = [Mixture(family, k, n_init=3, random_state=0).fit(rows) for k in numbers]
    axes.plot(numbers, [model.bic(rows) for model in models], "o-", label=covariance)
axes.set(xlabel="number of components", ylabel="BIC (lower is better)")
axes.legend(title="covariance")
plt.show()
