"""
# Counts: visits to a doctor

How often people of the RAND health insurance experiment saw a doctor in a year. One Poisson
distribution cannot describe it; a mixture of four, people who go rarely and people who go
often, does.
"""

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm
from scipy.stats import poisson

from mixfold import Mixture

visits = sm.datasets.randhie.load_pandas().data[["mdvis"]].to_numpy(dtype=float)
counts = np.arange(31)
shares = np.bincount(visits[:, 0].astype(int))[:31] / len(visits)

figure, axes = plt.subplots(layout="constrained")
axes.bar(counts, shares, color="lightgrey", label="people")
for k in (1, 4):
    model = Mixture("poisson", k, random_state=0).fit(visits)
    density = poisson.pmf(counts[:, None], model.means_[:, 0]) @ model.weights_
    axes.plot(counts, density, "o-", ms=4, label=f"{k} component{'s' * (k > 1)}")
axes.set(xlabel="visits in a year", ylabel="share of people", ylim=(0, 0.35))
axes.legend()
plt.show()
