"""Infinitely wide Bayesian neural networks with heavy tails."""
