"""
# Learning from a stream

Pixels of a photograph arrive in random order, in blocks of 200. After every block the model is
scored on 3,000 other pixels; the dashed line is the score of a model that was fitted to all
rows of the stream at once.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from mixfold import Mixture

pixels = load_sample_image("flower.jpg")[::4, ::4].reshape(-1, 3) / 255.0
rng = np.random.default_rng(0)
rows = rng.permutation(pixels + rng.uniform(-0.5, 0.5, pixels.shape) / 255.0)
test, stream = rows[:3000], rows[3000:]

model = Mixture(n_components=6, random_state=0)
scores = {}
for start in range(0, len(stream), 200):
    model.partial_fit(stream[start : start + 200])
    if start > 200:
        scores[start + 200] = model.score(test)

whole = Mixture(n_components=6, random_state=0).fit(stream).score(test)
figure, axes = plt.subplots(layout="constrained")
axes.plot(scores.keys(), scores.values(), label="stream")
axes.axhline(whole, color="k", ls="--", label="fitted to all rows at once")
axes.set(xlabel="rows learned", ylabel="mean log density of other rows")
axes.legend()
plt.show()
