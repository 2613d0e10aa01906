"""
# Groups: investment of firms

Eleven American firms over twenty years (Grunfeld 1958). A linear mixed-effects model gives all
firms a common slope, and every firm an intercept of its own, drawn from a normal distribution.
"""

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

from mixfold import LinearMixedModel

table = sm.datasets.grunfeld.load_pandas().data.sort_values(["firm", "year"])
table[["invest", "value"]] = np.log(table[["invest", "value"]])
model = LinearMixedModel("invest ~ value", random="~ 1", group="firm").fit(table)
predicted = model.predict(table)

figure, axes = plt.subplots(layout="constrained")
for number, (firm, rows) in enumerate(table.groupby("firm")):
    order = rows["value"].argsort()
    chosen = np.flatnonzero(table["firm"] == firm)[order]
    axes.plot(rows["value"], rows["invest"], ".", color=f"C{number}")
    axes.plot(table["value"].iloc[chosen], predicted[chosen], color=f"C{number}", label=firm)
axes.set(xlabel="log value of the firm", ylabel="log investment")
axes.legend(fontsize="x-small", ncols=2)
plt.show()
