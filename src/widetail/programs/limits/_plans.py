"""The plans of programs: which calls their kernels need, found symbolically, once per program."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.kernels import Rows
from widetail.programs.limits._expressions import Decomposition
from widetail.programs.limits._limit import Limit, Side, TooManyVariablesError, of_network
from widetail.programs.limits._options import Options
from widetail.programs.limits._recorded import Plan, Recorder
from widetail.programs.limits._tangent import TangentLimit

# Names of what is known of the rows of a side, each with whether it is zero.
Known = tuple[tuple[str, bool], ...]


@functools.lru_cache(maxsize=512)
def needs(program: Decomposition) -> Limit | None:
    """The limit of one input with itself, worked out; None for programs that have to be simulated."""
    vectors = frozenset(name for name, random in program.graph.randoms.items() if np.ndim(random.var) == 1)
    network = tuple((of_network(kind), False) for kind in ("covariance", "tangent"))
    limit = _limit((program,), Options(), vectors, (network,), Recorder())
    try:
        limit.readout(tangent=False)
    except TooManyVariablesError:
        return None
    return limit


def run_plan(
    programs: tuple[Decomposition, ...],
    options: Options,
    tangent: bool,
    variances: dict[str, Any],
    sides: tuple[Rows, ...],
    network: dict[str, Any] | None = None,
) -> tuple[Any, Any, dict[str, Any]]:
    """The kernel and the tangent kernel (or None), with an axis in front, and what is known of each row of one side.

    Args:
        programs: of each side.
        options: accuracy of integrals without a closed form.
        tangent: whether the tangent kernel is wanted.
        variances: of matrices and biases by name.
        sides: two for all pairs, one for each row with itself.
        network: for pairs, covariances and tangents of what a network below makes; each row's own are among its
            statistics.
    """
    dtype = sides[0].inputs.dtype
    known = tuple(tuple((name, value is None) for name, value in rows.statistics.items()) for rows in sides)
    vectors = frozenset(name for name, value in variances.items() if np.ndim(value) == 1)
    plan = _plan(programs, options, tangent, vectors, known, tuple(network or ()))
    given = [_cast(value, dtype) for value in variances.values()]
    for rows in sides:
        given.append(rows.inputs)
        given += [value for value in rows.statistics.values() if value is not None]
    return plan.run([*given, *(network or {}).values()])


def _cast(value: Any, dtype: Any) -> Any:
    """A variance in the precision of the inputs; traced ones stay traced."""
    return jnp.asarray(value, dtype) if isinstance(value, jax.Array) else np.asarray(value, dtype)


@functools.lru_cache(maxsize=512)
def _plan(
    programs: tuple[Decomposition, ...],
    options: Options,
    tangent: bool,
    vectors: frozenset[str],
    known: tuple[Known, ...],
    network: tuple[str, ...],
) -> Plan:
    recorder = Recorder()
    limit = _limit(programs, options, vectors, known, recorder, network)
    nngp, ntk = (None if k is None else recorder.call(_in_front, (), k) for k in limit.readout(tangent=tangent))
    return recorder.plan((nngp, ntk, limit.sides[0].known if len(programs) == 1 else {}))


def _in_front(k: Any) -> Any:
    """An axis for replicates, of which quasi-Monte Carlo has several."""
    return k[None]


def _limit(
    programs: tuple[Decomposition, ...],
    options: Options,
    vectors: frozenset[str],
    known: tuple[Known, ...],
    recorder: Recorder,
    network: tuple[str, ...] = (),
) -> Limit:
    names = dict.fromkeys(name for program in programs for name in program.graph.randoms)
    variances = {name: recorder.given() for name in names}
    sides = []
    for entries in known:
        x = recorder.given()
        sides.append(Side(x, {name: None if is_zero else recorder.given() for name, is_zero in entries}))
    both = (programs[0], programs[-1]), variances, vectors, (sides[0], sides[-1])
    pairs = {name: recorder.given() for name in network}
    return TangentLimit(*both, options, recorder, same=len(programs) == 1, network=pairs)
