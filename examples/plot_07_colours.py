"""
# Colours of a photograph

Every pixel is a row of red, green and blue. Each is replaced by the mean of its component, so
that sixteen colours remain.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_sample_image

from mixfold import Mixture

picture = load_sample_image("china.jpg")[::2, ::2] / 255.0
rows = picture.reshape(-1, 3)
model = Mixture(n_components=16, random_state=0).fit(rows)
painted = model.means_[model.predict(rows)].reshape(picture.shape)

figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for axes, shown, title in zip(
    panels, (picture, painted), ("photograph", "means of sixteen components"), strict=True
):
    axes.imshow(shown.clip(0, 1))
    axes.set(title=title, xticks=[], yticks=[])
plt.show()
