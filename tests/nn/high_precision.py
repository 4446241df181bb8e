"""Networks on vectors in 60-digit arithmetic, written from the formulas alone: no covariance is ever rounded."""

import mpmath
from mpmath import mp, mpf

from widetail import nn

DIGITS = 60


def kernels(net, x):
    """NNGP and tangent kernel of a `Sequential` of Dense, Residual and activations, as lists of lists."""
    with mp.workdps(DIGITS):
        rows = [[mpf(float(value)) for value in row] for row in x]
        k = [[mpmath.fdot(a, b) / len(a) for b in rows] for a in rows]
        zeros = [[mpf(0)] * len(rows) for _ in rows]
        weights = getattr(net.layers[0], "weight_var", None)
        if weights is not None and getattr(weights, "ndim", 0) == 1:
            w = [mpf(float(value)) for value in weights]
            k = [[mpmath.fsum(p * q * r for p, q, r in zip(w, a, b, strict=True)) / len(a) for b in rows] for a in rows]
        k, theta = _through(net.layers, k, zeros)
        return k, _entries(lambda a, b: a + b, k, theta)


def _entries(fn, *matrices):
    size = range(len(matrices[0]))
    return [[fn(*(m[i][j] for m in matrices)) for j in size] for i in size]


def _through(layers, k, theta):
    for layer in layers:
        if isinstance(layer, nn.Dense):
            w = mpf(1) if getattr(layer.weight_var, "ndim", 0) == 1 else mpf(float(layer.weight_var))
            b = mpf(float(layer.bias_var))
            k = _entries(lambda v, w=w, b=b: w * v + b, k)
            theta = _entries(lambda v, t, w=w: v + w * t, k, theta)
        elif isinstance(layer, nn.Residual):
            inner, inner_theta = _through(layer.layers, k, theta)
            k, theta = _entries(lambda a, b: a + b, k, inner), _entries(lambda a, b: a + b, theta, inner_theta)
        else:
            diagonal = [k[i][i] for i in range(len(k))]
            size = range(len(k))
            both = [[dual(layer, diagonal[i], diagonal[j], k[i][j]) for j in size] for i in size]
            k = [[value for value, _ in row] for row in both]
            theta = [
                [slope * t for (_, slope), t in zip(row, ts, strict=True)] for row, ts in zip(both, theta, strict=True)
            ]
    return k, theta


def dual(layer, k11, k22, k12):
    """E[phi phi'] and E[phi' phi''] of a Gaussian pair."""
    return DUALS[type(layer)](layer, k11, k22, k12)


def _correlation(k11, k22, k12):
    return max(mpf(-1), min(mpf(1), k12 / mpmath.sqrt(k11 * k22)))


def _rectifier(below):
    def evaluate(layer, k11, k22, k12):
        s = mpf(below(layer))
        if k11 == 0 or k22 == 0:
            return mpf(0), (1 - s) ** 2 / 4 + s  # an angle of 90 degrees, as the layer takes it
        c = _correlation(k11, k22, k12)
        angle = mpmath.acos(c)
        ramp = (mpmath.sqrt(1 - c * c) + (mp.pi - angle) * c) / mp.pi
        half = (mp.pi - angle) / mp.pi
        weight = (1 - s) ** 2 / 2
        return mpmath.sqrt(k11 * k22) * weight * ramp + s * k12, weight * half + s

    return evaluate


def _sign(layer, k11, k22, k12):
    if k11 == 0 or k22 == 0:
        return mpf(0), mpf(0)
    return 2 / mp.pi * mpmath.asin(_correlation(k11, k22, k12)), mpf(0)


def _erf(layer, k11, k22, k12):
    product = (1 + 2 * k11) * (1 + 2 * k22)
    value = 2 / mp.pi * mpmath.asin(2 * k12 / mpmath.sqrt(product))
    return value, 4 / mp.pi / mpmath.sqrt(product - 4 * k12 * k12)


def _gelu(layer, k11, k22, k12):
    def value(k12):
        product = (1 + k11) * (1 + k22)
        density = 1 / (2 * mp.pi) / mpmath.sqrt(product - k12 * k12)
        both_on = mpf(1) / 4 + mpmath.asin(k12 / mpmath.sqrt(product)) / (2 * mp.pi)
        return density * (k11 * k22 + k12 * k12 * (1 / (1 + k11) + 1 / (1 + k22) - 1)) + k12 * both_on

    with mp.workdps(3 * DIGITS):
        # central differences with a step far below all numbers in play, far above the last digits carried
        step = (1 + abs(k12)) * mpf(10) ** (-DIGITS)
        slope = (value(k12 + step) - value(k12 - step)) / (2 * step)
    return value(k12), slope


def _waves(square, a, b):
    """a E[sin sin'] + b E[cos cos'], of waves with this square of their frequency."""

    def evaluate(layer, k11, k22, k12):
        w, odd, even = square(layer), a(layer), b(layer)
        minus = mpmath.exp(-w * (k11 + k22 - 2 * k12) / 2)
        plus = mpmath.exp(-w * (k11 + k22 + 2 * k12) / 2)
        sines, cosines = (minus - plus) / 2, (minus + plus) / 2
        return odd * sines + even * cosines, w * (odd * cosines + even * sines)

    return evaluate


def _number(name):
    return lambda layer: mpf(float(getattr(layer, name)))


DUALS = {
    nn.Relu: _rectifier(lambda layer: 0),
    nn.LeakyRelu: _rectifier(_number("negative_slope")),
    nn.Abs: _rectifier(lambda layer: -1),
    nn.Sign: _sign,
    nn.Erf: _erf,
    nn.Gelu: _gelu,
    nn.Sin: _waves(
        lambda layer: _number("frequency")(layer) ** 2,
        lambda layer: mpmath.cos(_number("phase")(layer)) ** 2,
        lambda layer: mpmath.sin(_number("phase")(layer)) ** 2,
    ),
    nn.Cos: _waves(lambda layer: _number("frequency")(layer) ** 2, lambda layer: mpf(0), lambda layer: mpf(1)),
    nn.Rbf: _waves(lambda layer: 2 * _number("gamma")(layer), lambda layer: mpf(1), lambda layer: mpf(1)),
}
