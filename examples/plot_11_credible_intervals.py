"""
# How sure are the estimates?

`MomentMatching` learns a posterior distribution, row by row. The bands are 90% credible
intervals of the mean waiting time of both kinds of eruptions.
"""

import matplotlib.pyplot as plt
import numpy as np

from mixfold import Mixture, datasets

rows = np.random.default_rng(0).permutation(datasets.load_faithful())
model = Mixture(n_components=2, learner="moment-matching", random_state=0)
model.partial_fit(rows[:100])

learned, low, high = [], [], []
for start in range(100, len(rows), 4):
    model.partial_fit(rows[start : start + 4])
    lower, upper = model.credible_intervals(0.9)["means"]
    learned.append(start + 4)
    low.append(lower[:, 1])
    high.append(upper[:, 1])

figure, axes = plt.subplots(layout="constrained")
for k, label in enumerate(("short eruptions", "long eruptions")):
    axes.fill_between(learned, np.array(low)[:, k], np.array(high)[:, k], alpha=0.5, label=label)
axes.set(xlabel="rows learned", ylabel="mean waiting time (minutes)")
axes.legend()
plt.show()
