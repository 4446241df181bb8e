"""Kernels of the zoo, each computed once: in tiles, and traced by JAX as a whole together with gradients."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from widetail.kernels import KernelValues

from .zoo import named


@functools.cache
def in_tiles(name) -> KernelValues:
    case = named(name)
    return case.net.kernel(case.inputs())


class Traced(NamedTuple):
    values: KernelValues
    parameters: Any  # derivatives of the loss in the network's parameters, shaped like the network
    inputs: np.ndarray  # and in the inputs


def loss_weights(n):
    """Derivatives of a loss in the entries of the kernels; not symmetric, like any cotangent may be."""
    rng = np.random.default_rng(1)
    return KernelValues(rng.normal(size=(n, n)), rng.normal(size=(n, n)))


@functools.cache
def in_one_piece(name) -> Traced:
    case = named(name)
    x = case.inputs()
    weights = loss_weights(len(x))
    parameters, rest = eqx.partition(case.net, eqx.is_inexact_array_like)

    @jax.jit
    def evaluate(parameters, x):
        def loss(parameters, x):
            k = eqx.combine(parameters, rest).kernel(x)
            return jnp.vdot(k.nngp, weights.nngp) + jnp.vdot(k.ntk, weights.ntk), k

        return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(parameters, x)

    with jax.enable_x64(True):
        parameters = jax.tree.map(jnp.asarray, parameters)
        (_, values), (in_parameters, in_inputs) = evaluate(parameters, jnp.asarray(x))
    return Traced(KernelValues(*map(np.asarray, values)), in_parameters, np.asarray(in_inputs))
