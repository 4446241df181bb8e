"""Kernels of vectors of features: stationary ones, linear functions, sums over features."""
