"""
# A table of mixed columns with missing values

Voters of the American National Election Study of 1996: age, days a week with television news,
education, income, and where they see themselves between left and right. A fifth of the answers is
removed here, as in surveys people leave questions out. `family="auto"` chooses a family for
every column, BIC the number of components, and missing cells are integrated out.

If the environment variable `MIXFOLD_DATA` names a folder with them, other tables are fitted too.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import statsmodels.api as sm

from mixfold import Mixture


def name_of(family):
    """The name of a family without its settings."""
    return str(family).partition("(")[0]


def fit_by_bic(table):
    """The mixture with the smallest BIC among those of 1 to 6 components."""
    models = [Mixture("auto", k, random_state=0).fit(table) for k in range(1, 7)]
    scores = [model.bic(table) for model in models]
    return models[int(np.argmin(scores))], scores


votes = sm.datasets.anes96.load_pandas().data
table = votes[["age", "TVnews", "educ", "income", "selfLR", "PID"]].copy()
table["vote"] = np.where(votes["vote"] == 1, "Dole", "Clinton")
table = table.mask(np.random.default_rng(0).random(table.shape) < 0.2)
model, scores = fit_by_bic(table)
for choice in model.chosen_families_:
    print(f"{choice.column!s:7} {name_of(choice.family):12} {choice.reason}")

# %%
# The picture has the means of every component, in standard deviations from those of all voters.
# The answers are ordered, so that categories have means too. There are three kinds of voters:
# younger ones with more education and income, left of the centre, who vote for Clinton;
# conservative Republicans of every age, who vote for Dole; and older ones with less education and
# income, who see more television news, are Democrats and vote for Clinton.

shares = model.predict_proba(table)
numbers = table.assign(vote=(table["vote"] == "Dole").where(table["vote"].notna())).astype(float)
standard = (numbers - numbers.mean()) / numbers.std()
there = standard.notna().to_numpy(dtype=float)
means = shares.T @ standard.fillna(0.0).to_numpy() / (shares.T @ there)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4), layout="constrained", width_ratios=(1, 2)
)
left.plot(range(1, 7), scores, "o-")
left.set(xlabel="components", ylabel="BIC")
picture = right.imshow(means, cmap="RdBu_r", vmin=-1.3, vmax=1.3, aspect="auto")
labels = [
    "age", "TV news", "education", "income", "conservative", "Republican", "votes Dole",
]  # fmt: skip
right.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
names = [f"{k} ({share:.0%})" for k, share in enumerate(model.weights_)]
right.set_yticks(range(len(names)), names)
right.set_ylabel("component (share of voters)")
for (k, j), value in np.ndenumerate(means):
    right.text(j, k, f"{value:+.1f}", ha="center", va="center")
figure.colorbar(picture, label="standard deviations from the mean")
plt.show()

# %%
# A row with missing answers, and what the mixture expects there.

few = table[table["vote"].isna()].head(3)
print(few)
print(model.impute(few).round(1))

# %%
# Other tables, from the folder if there is one: the chosen families, and the number of components.
# The components are the three species of penguins, each divided by sex; passengers of the Titanic
# by sex, age and class; wings of two parties; ages of boys; and patients by health and visits. The
# pages "Real tables" say more.

FILES = {
    "penguins": None,
    "titanicsurvival": None,
    "mlbench_housevotes84": None,
    "boys": None,
    "nmes_ofp_visits": ["ofp", "hosp", "numchron", "age", "privins", "hlth"],
}
folder = Path(os.environ.get("MIXFOLD_DATA", "no folder"))
for name, columns in FILES.items():
    if (folder / f"{name}.parquet").is_file():
        other = pd.read_parquet(folder / f"{name}.parquet", columns=columns)
        best, _ = fit_by_bic(other)
        families = [name_of(choice.family) for choice in best.chosen_families_]
        print(name, other.shape, pd.Series(families).value_counts().to_dict(), len(best.weights_))
