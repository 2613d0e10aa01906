"""Latent-variable models a learner can fit."""
