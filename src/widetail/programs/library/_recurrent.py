"""Recurrent networks: one set of weights, used at every step."""

from typing import Any

import jax
import jax.numpy as jnp

from widetail.programs._program import program


@program
def rnn(
    p: Any, xs: Any, *, fn: Any = jnp.tanh, weight_var: Any = 1.6, input_var: Any = 0.8, bias_var: Any = 0.1
) -> Any:
    """A simple recurrent network, sequence to one (Elman, 1990).

    The last state is read out. Its limit as a tensor program: Yang (2019), section 2.
    """
    W, U, b = p.matrix(weight_var), p.input_matrix(input_var), p.bias(bias_var)
    h = p.zeros()
    for x in xs:
        h = p.nonlin(fn, W @ h + U @ x + b)
    return h


@program(masked=True)
def packed_rnn(
    p: Any, xs: Any, *, fn: Any = jnp.tanh, weight_var: Any = 1.6, input_var: Any = 0.8, bias_var: Any = 0.1
) -> Any:
    """`rnn` on sequences of unequal length, as `pack` makes one array of them.

    All sequences end together; until a sequence begins, its state is zero.
    """
    W, U, b = p.matrix(weight_var), p.input_matrix(input_var), p.bias(bias_var)
    h = p.zeros()
    for x in xs:
        h = x.present * p.nonlin(fn, W @ h + U @ x + b)
    return h


@program
def averaged_rnn(
    p: Any, xs: Any, *, fn: Any = jnp.tanh, weight_var: Any = 1.6, input_var: Any = 0.8, bias_var: Any = 0.1
) -> Any:
    """`rnn` with the mean of all states read out, instead of the last one: time^2 covariances instead of time."""
    W, U, b = p.matrix(weight_var), p.input_matrix(input_var), p.bias(bias_var)
    h, states = p.zeros(), []
    for x in xs:
        h = p.nonlin(fn, W @ h + U @ x + b)
        states.append(h)
    return p.mean(states)


@program
def gru(p: Any, xs: Any, *, weight_var: Any = 1.0, input_var: Any = 1.0, bias_var: Any = 0.1) -> Any:
    """A gated recurrent unit (Cho et al., 2014), with its gates; as a tensor program: Yang (2019), appendix.

    A state is a function of all gates so far, so from the third step on expectations are by quasi-Monte Carlo. The
    time of a pair of inputs grows with the square of the number of steps, and so does that of the first call, which
    compiles: tens of seconds for 10 steps, minutes for more than 20.
    """
    Wz, Uz, bz = p.matrix(weight_var), p.input_matrix(input_var), p.bias(bias_var)
    Wr, Ur, br = p.matrix(weight_var), p.input_matrix(input_var), p.bias(bias_var)
    Wh, Uh, bh = p.matrix(weight_var), p.input_matrix(input_var), p.bias(bias_var)
    h = None
    for x in xs:
        z = p.nonlin(jax.nn.sigmoid, Uz @ x + bz if h is None else Wz @ h + Uz @ x + bz)
        if h is None:  # from a state of zero there is nothing to reset or to keep
            h = z * p.nonlin(jnp.tanh, Uh @ x + bh)
            continue
        r = p.nonlin(jax.nn.sigmoid, Wr @ h + Ur @ x + br)
        candidate = p.nonlin(jnp.tanh, Wh @ (r * h) + Uh @ x + bh)
        h = (1 - z) * h + z * candidate
    return p.zeros() if h is None else h
