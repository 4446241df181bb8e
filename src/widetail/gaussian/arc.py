r"""Arc functions of a correlation, as polynomials that vectorise.

A library arc cosine runs at some 35 million elements a second on one core; a polynomial inside a fused
loop runs several times faster and is as accurate. The coefficients interpolate, at Chebyshev nodes and in
60-digit arithmetic, the smooth factor that is left once the square-root singularity is taken out.
`tests/gaussian/test_arc.py` holds them against mpmath.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# arccos(a) / sqrt(1 - a) on [0, 1]
_ARCCOS = {
    8: (
        1.5707963267948963,
        -0.21460183660242374,
        0.08904862253421428,
        -0.05079281394384022,
        0.03368127352974124,
        -0.024374148326072563,
        0.01867066721191609,
        -0.014875837063215488,
        0.012168440773078696,
        -0.010058680672619103,
        0.00818258370918535,
        -0.006283063382676808,
        0.004312728869860108,
        -0.0024885688298950347,
        0.0011283951621620858,
        -0.0003700307903930049,
        7.711301342864637e-05,
        -7.609614252019444e-06,
    ),
    4: (
        1.570796322643815,
        -0.2146011607316858,
        0.08903013693965323,
        -0.05059357388390752,
        0.03257117017408731,
        -0.02072766525325272,
        0.011028380666317037,
        -0.003974577703820064,
        0.0006845318166245465,
    ),
}

# (sqrt(1 - a^2) - a arccos(a)) / (pi (1 - a)^(3/2)) on [0, 1]
_RAMP = {
    8: (
        0.31830988618379064,
        -0.022535170724304904,
        0.005985979685623932,
        -0.0024647093012735936,
        0.001269165061727713,
        -0.0007481264083704761,
        0.0004825479457405278,
        -0.0003315816988493278,
        0.0002378435243108472,
        -0.0001738180142477207,
        0.00012457192848009318,
        -8.28044617601184e-05,
        4.766361876502399e-05,
        -2.200141949987055e-05,
        7.434831161612078e-06,
        -1.6069698777006544e-06,
        1.649376186704804e-07,
    ),
    4: (
        0.3183098854626029,
        -0.0225350779086888,
        0.0059839763075436765,
        -0.002447800045454428,
        0.0011963892546253468,
        -0.0005669600661456965,
        0.0002007348023887997,
        -3.5709515759655246e-05,
    ),
}

# arcsin(sqrt(z)) / sqrt(z) on [0, 1/4]
_ARCSIN = {
    8: (
        1.0,
        0.16666666666664942,
        0.07500000000385201,
        0.044642856805998936,
        0.03038195969768514,
        0.022371749733164054,
        0.01735977964134998,
        0.01388484282640208,
        0.012170138592391726,
        0.0065293020047365695,
        0.019513468251252167,
        -0.016187392271599134,
        0.03187962140081284,
    ),
    4: (
        0.999999995983738,
        0.16666782005775338,
        0.07494696687423973,
        0.045520635631714566,
        0.02399399965364759,
        0.04241737375979984,
    ),
}


def _polynomial(table: dict[int, tuple[float, ...]], x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The even and the odd powers apart: two short chains of multiply-adds run faster than a long one."""
    coefficients, square = table[x.dtype.itemsize], x * x
    return _horner(coefficients[::2], square) + x * _horner(coefficients[1::2], square)


def _horner(coefficients: tuple[float, ...], x: Float[Array, "..."]) -> Float[Array, "..."]:
    *lower, top = coefficients
    value = jnp.full_like(x, top)
    for coefficient in reversed(lower):
        value = value * x + coefficient
    return value


def inverse_sqrt(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1 / sqrt(x), the other way round: XLA makes a call per element of the usual order, three times as slow."""
    return jnp.sqrt(1 / x)


def _inverse_sine_of_angle(c: Float[Array, "..."]) -> Float[Array, "..."]:
    """1 / sqrt(1 - c^2), and 0 where rounding has used up 1 - c^2 (equal or opposite inputs)."""
    square = (1 - c) * (1 + c)
    is_open = square > 4 * jnp.finfo(c.dtype).eps
    return jnp.where(is_open, inverse_sqrt(jnp.where(is_open, square, 1)), 0)


def _gap(c: Float[Array, "..."]) -> Float[Array, "..."]:
    """1 - |c|, and 0 where only rounding may have kept |c| from being 1.

    The correlation of equal inputs can come out as 1 - 2e-16, and the angle as 2e-8 instead of 0; layer after
    layer this would add up.
    """
    gap = 1 - jnp.abs(c)
    return jnp.where(gap > 8 * jnp.finfo(c.dtype).eps, gap, 0)


def snap(c: Float[Array, "..."]) -> Float[Array, "..."]:
    """A correlation, made 1 or -1 where only rounding may have kept it from being so."""
    return jnp.where(_gap(c) > 0, c, jnp.sign(c))


@jax.custom_jvp
def half_space(c: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""Arc-cosine kernel of order 0, $\kappa_0(c) = (\pi - \arccos c) / \pi$, for $|c| \le 1$.

    Twice the probability that two unit Gaussians of correlation $c$ are both positive.
    """
    angle = jnp.sqrt(_gap(c)) * _polynomial(_ARCCOS, jnp.abs(c)) * (1 / math.pi)
    return jnp.where(c > 0, 1 - angle, angle)


@half_space.defjvp
def _half_space_jvp(primals, tangents):
    (c,), (dc,) = primals, tangents
    return half_space(c), dc * _inverse_sine_of_angle(c) * (1 / math.pi)


@jax.custom_jvp
def ramp(c: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""Arc-cosine kernel of order 1, $\kappa_1(c) = (\sqrt{1 - c^2} + (\pi - \arccos c)\, c) / \pi$.

    Written as $\max(c, 0) + (1 - |c|)^{3/2} q(|c|)$, it keeps its relative accuracy down to $c = -1$,
    where the textbook form subtracts two equal numbers.
    """
    gap = _gap(c)
    # Not gap * sqrt(gap): a root shared with `half_space` makes XLA store it, and two more arrays, in between.
    return jnp.where(c > 0, 1 - gap, 0) + jnp.sqrt(gap * gap * gap) * _polynomial(_RAMP, jnp.abs(c))


@ramp.defjvp
def _ramp_jvp(primals, tangents):
    (c,), (dc,) = primals, tangents
    return ramp(c), dc * half_space(c)


@jax.custom_jvp
def arcsin(c: Float[Array, "..."]) -> Float[Array, "..."]:
    """The arc sine for |c| <= 1, clipped outside, with a finite derivative at the ends."""
    a = jnp.minimum(jnp.abs(c), 1)
    is_steep = a > 0.5
    z = jnp.where(is_steep, 0.5 * (1 - a), a * a)
    angle = jnp.sqrt(z) * _polynomial(_ARCSIN, z)
    angle = jnp.where(is_steep, math.pi / 2 - 2 * angle, angle)
    return jnp.where(c < 0, -angle, angle)


@arcsin.defjvp
def _arcsin_jvp(primals, tangents):
    (c,), (dc,) = primals, tangents
    return arcsin(c), dc * _inverse_sine_of_angle(c)


@jax.custom_jvp
def arcsin_beside(c: Float[Array, "..."], rest: Float[Array, "..."]) -> Float[Array, "..."]:
    """The arc sine of c for a positive `rest` that is 1 - c^2, and may have digits that c has lost near 1 and -1."""
    a = jnp.minimum(jnp.abs(c), 1)
    is_steep = a > 0.5
    z = jnp.where(is_steep, 0.5 * rest / (1 + a), a * a)
    angle = jnp.sqrt(z) * _polynomial(_ARCSIN, z)
    angle = jnp.where(is_steep, math.pi / 2 - 2 * angle, angle)
    return jnp.where(c < 0, -angle, angle)


@arcsin_beside.defjvp
def _arcsin_beside_jvp(primals, tangents):
    (c, rest), (dc, _) = primals, tangents
    return arcsin_beside(c, rest), dc * inverse_sqrt(rest)
