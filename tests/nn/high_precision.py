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
        elif isinstance(layer, nn.Parallel):
            k, theta = _product(*(_through(branch.layers, k, theta) for branch in layer.layers))  # pyright: ignore[reportAttributeAccessIssue]
        elif isinstance(layer, nn.LayerNorm):
            inverse = [1 / mpmath.sqrt(k[i][i]) if k[i][i] else mpf(0) for i in range(len(k))]
            outer = [[a * b for b in inverse] for a in inverse]
            k, theta = (_entries(lambda v, c: v * c, matrix, outer) for matrix in (k, theta))
        else:
            diagonal = [k[i][i] for i in range(len(k))]
            size = range(len(k))
            both = [[dual(layer, diagonal[i], diagonal[j], k[i][j]) for j in size] for i in size]
            k = [[value for value, _ in row] for row in both]
            theta = [
                [slope * t for (_, slope), t in zip(row, ts, strict=True)] for row, ts in zip(both, theta, strict=True)
            ]
    return k, theta


def _product(one, other):
    """Two branches, multiplied entry by entry: the derivative is that of one or of the other."""
    (k1, theta1), (k2, theta2) = one, other
    theta = _entries(lambda a, b, t, u: t * b + a * u, k1, k2, theta1, theta2)
    return _entries(lambda a, b: a * b, k1, k2), theta


def dual(layer, k11, k22, k12):
    """E[phi phi'] and E[phi' phi''] of a Gaussian pair."""
    return DUALS[type(layer)](layer, k11, k22, k12)


def _correlation(k11, k22, k12):
    return max(mpf(-1), min(mpf(1), k12 / mpmath.sqrt(k11 * k22)))


def _rectifier(below, above=lambda layer: 1):
    def evaluate(layer, k11, k22, k12):
        s, t = mpf(below(layer)), mpf(above(layer))
        if k11 == 0 or k22 == 0:
            return mpf(0), (t - s) ** 2 / 4 + s * t  # an angle of 90 degrees, as the layer takes it
        c = _correlation(k11, k22, k12)
        angle = mpmath.acos(c)
        ramp = (mpmath.sqrt(1 - c * c) + (mp.pi - angle) * c) / mp.pi
        half = (mp.pi - angle) / mp.pi
        weight = (t - s) ** 2 / 2
        return mpmath.sqrt(k11 * k22) * weight * ramp + s * t * k12, weight * half + s * t

    return evaluate


def _sign(layer, k11, k22, k12):
    if k11 == 0 or k22 == 0:
        return mpf(0), mpf(0)
    return 2 / mp.pi * mpmath.asin(_correlation(k11, k22, k12)), mpf(0)


def _erf(layer, k11, k22, k12):
    product = (1 + 2 * k11) * (1 + 2 * k22)
    value = 2 / mp.pi * mpmath.asin(2 * k12 / mpmath.sqrt(product))
    return value, 4 / mp.pi / mpmath.sqrt(product - 4 * k12 * k12)


def _with_slope(value):
    """A dual and its derivative in the covariance, by differences.

    The step is far below all numbers in play, and far above the last digits carried.
    """

    def evaluate(layer, k11, k22, k12):
        with mp.workdps(3 * DIGITS):
            step = (1 + abs(k12)) * mpf(10) ** (-DIGITS)
            slope = (value(layer, k11, k22, k12 + step) - value(layer, k11, k22, k12 - step)) / (2 * step)
        return value(layer, k11, k22, k12), slope

    return evaluate


def _gelu(layer, k11, k22, k12):
    product = (1 + k11) * (1 + k22)
    density = 1 / (2 * mp.pi) / mpmath.sqrt(product - k12 * k12)
    both_on = mpf(1) / 4 + mpmath.asin(k12 / mpmath.sqrt(product)) / (2 * mp.pi)
    return density * (k11 * k22 + k12 * k12 * (1 / (1 + k11) + 1 / (1 + k22) - 1)) + k12 * both_on


def _gaussian(layer, k11, k22, k12):
    r = 2 * _number("rate")(layer)
    return 1 / mpmath.sqrt((1 + r * k11) * (1 + r * k22) - (r * k12) ** 2)


def _gabor(layer, k11, k22, k12):
    """Half of E[exp(-x^2 - y^2) (cos(x - y) - cos(x + y))], two integrals over a Gaussian pair with S / (1 + 2 S)."""
    determinant = (1 + 2 * k11) * (1 + 2 * k22) - 4 * k12 * k12
    far, near = ((1 + k11 + k22 + sign * 2 * k12) / (2 * determinant) for sign in (-1, 1))
    return mpmath.exp(-mpf(1) / 2) * (mpmath.exp(near) - mpmath.exp(far)) / 2 / mpmath.sqrt(determinant)


def _exp_normalized(layer, k11, k22, k12):
    c = _correlation(k11, k22, k12) if k11 * k22 else mpf(0)
    gamma = _number("gamma")(layer)
    value = mpmath.exp(gamma * (c + _number("shift")(layer)))
    return mpmath.sqrt(k11 * k22) * value, gamma * value


def _sigmoid_like(layer, k11, k22, k12):
    a = 1 / mpf("2.4020563531719796") ** 2
    value, slope = _erf(layer, a * k11, a * k22, a * k12)
    return (1 + value) / 4, a * slope / 4


def _rectified(layer, k11, k22, k12):
    """The steps and the squares, from the angle."""
    root = mpmath.sqrt(k11 * k22)
    angle = mpmath.acos(_correlation(k11, k22, k12)) if root else mp.pi / 2
    sine, cosine, rest = mpmath.sin(angle), mpmath.cos(angle), mp.pi - angle
    if layer.degree == 0:
        return rest / (2 * mp.pi) if root else mpf(0), mpf(0)
    assert layer.degree == 2
    value = root**2 * (3 * sine * cosine + rest * (1 + 2 * cosine**2)) / (2 * mp.pi)
    return value, 4 * root * (sine + rest * cosine) / (2 * mp.pi)


def _polynomial(layer, k11, k22, k12):
    """By Isserlis: j pairs across, the others on their own side."""
    coefficients = [mpf(float(c)) for c in layer._coefficients()]
    value = slope = mpf(0)
    for a, one in enumerate(coefficients):
        for b, other in enumerate(coefficients):
            for j in range(a % 2, min(a, b) + 1, 2) if a % 2 == b % 2 else ():
                ways = mpmath.factorial(j) * mpmath.binomial(a, j) * mpmath.binomial(b, j)
                ways *= mpmath.fac2(a - j - 1) * mpmath.fac2(b - j - 1)
                ways *= one * other * k11 ** ((a - j) // 2) * k22 ** ((b - j) // 2)
                value += ways * k12**j
                slope += ways * j * k12 ** (j - 1) if j else 0
    return value, slope


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
    nn.Gelu: _with_slope(_gelu),
    nn.ABRelu: _rectifier(_number("below"), _number("above")),
    nn.Gaussian: _with_slope(_gaussian),
    nn.Gabor: _with_slope(_gabor),
    nn.ExpNormalized: _exp_normalized,
    nn.SigmoidLike: _sigmoid_like,
    nn.RectifiedMonomial: _rectified,
    nn.Polynomial: _polynomial,
    nn.Hermite: _polynomial,
    nn.Monomial: _polynomial,
    nn.Sin: _waves(
        lambda layer: _number("frequency")(layer) ** 2,
        lambda layer: mpmath.cos(_number("phase")(layer)) ** 2,
        lambda layer: mpmath.sin(_number("phase")(layer)) ** 2,
    ),
    nn.Cos: _waves(lambda layer: _number("frequency")(layer) ** 2, lambda layer: mpf(0), lambda layer: mpf(1)),
    nn.Rbf: _waves(lambda layer: 2 * _number("gamma")(layer), lambda layer: mpf(1), lambda layer: mpf(1)),
}
