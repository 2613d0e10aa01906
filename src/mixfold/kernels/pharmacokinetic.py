"""Expectations of a pharmacokinetic model."""

from __future__ import annotations

from mixfold.kernels.simulation import SimulationKernel


class PharmacokineticKernel(SimulationKernel):
    """Statistics of (y, z), averaged over Metropolis-Hastings draws of z."""
