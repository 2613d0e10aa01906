"""Expectations of a logistic mixed model."""

from __future__ import annotations

from mixfold.kernels._simulation import SimulationKernel


class LogisticMixedKernel(SimulationKernel):
    """Statistics of (y, z), averaged over Metropolis-Hastings draws of z."""
