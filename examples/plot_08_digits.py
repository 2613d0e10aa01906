"""
# Handwritten digits, one row at a time

`AnnealedSGD` learns pictures of 64 pixels row by row. Its components lie on a grid, and
neighbours are alike, since they learn together at first.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from mixfold import AnnealedSGD, Gaussian, Mixture

rows = load_digits().data / 16.0
learner = AnnealedSGD(max_iter=20)
model = Mixture(Gaussian("diag"), 25, learner=learner, random_state=0).fit(rows)

figure, panels = plt.subplots(5, 5, figsize=(5, 5), layout="constrained")
for axes, mean in zip(panels.flat, model.means_, strict=True):
    axes.imshow(mean.reshape(8, 8), cmap="gray_r")
    axes.axis("off")
plt.show()
