"""
# Clusters of Old Faithful

Eruptions of the geyser are short or long, and the waiting time goes with them. Two Gaussian
components describe both kinds; the ellipses hold one and two standard deviations.
"""

import matplotlib.pyplot as plt
import numpy as np

from mixfold import Mixture, datasets

rows = datasets.load_faithful()
model = Mixture(n_components=2, random_state=0).fit(rows)

angles = np.linspace(0, 2 * np.pi, 100)
circle = np.stack([np.cos(angles), np.sin(angles)])
figure, axes = plt.subplots(layout="constrained")
axes.scatter(*rows.T, c=model.predict_proba(rows)[:, 1], s=14, cmap="coolwarm")
for mean, covariance in zip(model.means_, model.covariances_, strict=True):
    for deviations in (1, 2):
        axes.plot(
            *(mean[:, None] + deviations * np.linalg.cholesky(covariance) @ circle), "k", lw=1
        )
axes.set(xlabel="eruption (minutes)", ylabel="waiting time (minutes)")
plt.show()
