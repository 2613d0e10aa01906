"""
# Unusual rows

A mixture is fitted to measurements of benign breast tumours alone. The log density of new rows
then tells malignant tumours, which it has never seen, from other benign ones.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from mixfold import Gaussian, Mixture

rows, benign = load_breast_cancer(return_X_y=True)
rows = StandardScaler().fit_transform(rows[:, :10])
train, test = train_test_split(rows[benign == 1], random_state=0)
model = Mixture(Gaussian("full", reg_covar=1e-2), 2, random_state=0).fit(train)

known, unknown = model.score_samples(test), model.score_samples(rows[benign == 0])
labels = [0] * len(known) + [1] * len(unknown)
area = roc_auc_score(labels, [-score for score in (*known, *unknown)])

figure, axes = plt.subplots(layout="constrained")
axes.hist([known.clip(-60), unknown.clip(-60)], bins=30, label=["benign", "malignant"])
axes.set(xlabel="log density (below -60: -60)", ylabel="tumours")
axes.set_title(f"area under the ROC curve {area:.3f}")
axes.legend()
plt.show()
