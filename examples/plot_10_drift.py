"""
# A stream that changes

First come pictures of the digits 0 to 4, then 5 to 9. `DriftAware` notices that the likelihood
falls, and lets the learner take large steps again.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from mixfold import DriftAware, Gaussian, Mixture, OnlineEM, Power

digits = load_digits()
rows = PCA(8, random_state=0).fit_transform(digits.data)
rng = np.random.default_rng(0)
early, late = rows[digits.target < 5], rows[digits.target >= 5]
stream = np.concatenate([rng.choice(early, 8000), rng.choice(late, 8000)])
stream += rng.normal(scale=0.5, size=stream.shape)

figure, axes = plt.subplots(layout="constrained")
for name, learner in {
    "online EM": OnlineEM(schedule=Power(0.9)),
    "with DriftAware": DriftAware(OnlineEM(schedule=Power(0.9))),
}.items():
    model = Mixture(Gaussian("diag"), 10, learner=learner, random_state=0)
    scores = []
    for start in range(0, len(stream), 200):
        block = stream[start : start + 200]
        if start >= 2000:
            scores.append(model.score(block))
        model.partial_fit(block)
    axes.plot(2000 + 200 * np.arange(len(scores)), scores, label=name)
axes.axvline(8000, color="k", ls=":")
axes.set(xlabel="rows learned", ylabel="mean log density of the block to come")
axes.legend()
plt.show()
