"""Activations: each a function, and its dual, the expectation of its product over a Gaussian pair."""
