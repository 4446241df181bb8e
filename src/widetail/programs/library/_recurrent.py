"""Recurrent networks."""

from typing import Any

import jax.numpy as jnp

from widetail.programs._program import program


@program
def rnn(p: Any, xs: Any, *, fn: Any = jnp.tanh, weight_var: Any = 1.6, input_var: Any = 0.8, bias_var: Any = 0.1) -> Any:
    """A simple recurrent network (Elman, 1990), sequence to one: the last state is read out."""
    W, U, b = p.matrix(weight_var), p.input_matrix(input_var), p.bias(bias_var)
    h = p.zeros()
    for x in xs:
        h = p.nonlin(fn, W @ h + U @ x + b)
    return h
