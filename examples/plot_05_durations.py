"""
# Durations: strikes

Days that strikes in American manufacturing lasted. A mixture of two exponential distributions
has a survival curve closer to the observed one than a single distribution has.
"""

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

from mixfold import Mixture

days = np.sort(sm.datasets.strikes.load_pandas().data["duration"].to_numpy(dtype=float))
observed = 1.0 - np.arange(1, len(days) + 1) / len(days)
grid = np.linspace(0, days[-1], 200)

figure, axes = plt.subplots(layout="constrained")
axes.step(days, observed, "k", where="post", label="observed")
for k in (1, 2):
    model = Mixture("exponential", k, n_init=5, random_state=0).fit(days[:, None])
    survival = np.exp(-grid[:, None] / model.means_[:, 0]) @ model.weights_
    axes.plot(grid, survival, label=f"{k} component{'s' * (k > 1)}")
axes.set(xlabel="days", ylabel="share of strikes that last longer")
axes.legend()
plt.show()
