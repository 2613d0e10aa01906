"""Pictures of fitted mixtures, drawn with matplotlib.

Functions take parameters, rows and matplotlib Axes, and return the Axes they have drawn on. The
estimators have a method for each: `Mixture.plot`, `Mixture.plot_history` and others.
"""
