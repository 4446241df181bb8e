"""Duals of activations by brute force: a two-dimensional integral in polar coordinates.

With Z = (s1 r cos a, s2 r cos(a - t)) and t the angle between the two variables, every kink at zero of a function
falls on one of four rays, so that Gauss-Legendre between the rays converges fast for kinked and for smooth functions.
"""

import functools

import numpy as np


def expectation(fn, var1, var2, correlation, *, angles=64, radii=120):
    """E[fn(Z1) fn(Z2)] for a centred Gaussian pair."""
    t = np.arccos(np.clip(correlation, -1, 1))
    rays = np.sort(np.mod([np.pi / 2, 3 * np.pi / 2, t + np.pi / 2, t + 3 * np.pi / 2], 2 * np.pi))
    starts, ends = rays, np.append(rays[1:], rays[0] + 2 * np.pi)
    farthest = 10 + np.sqrt(var1) + np.sqrt(var2)  # the Gaussian weight, also against the growth of exp
    r, r_weights = _legendre(radii, 0.0, farthest)
    r_weights = r_weights * r * np.exp(-0.5 * r**2) / (2 * np.pi)
    total = 0.0
    for start, end in zip(starts, ends, strict=True):
        if end - start < 1e-12:
            continue
        a, a_weights = _legendre(angles, start, end)
        first = fn(np.sqrt(var1) * np.outer(np.cos(a), r))
        second = fn(np.sqrt(var2) * np.outer(np.cos(a - t), r))
        total += a_weights @ (first * second) @ r_weights
    return total


@functools.cache
def _unit_legendre(count):
    return np.polynomial.legendre.leggauss(count)


def _legendre(count, start, end):
    nodes, weights = _unit_legendre(count)
    return start + 0.5 * (end - start) * (nodes + 1), 0.5 * (end - start) * weights
