"""Priors and networks as they are written on the command line."""

import jax
import numpy as np
import pytest

import widetail as wt
from widetail.cli._errors import UsageError
from widetail.cli._specs import parse_net, parse_prior


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("inverse-gamma(2,2)", wt.InverseGamma(2.0, 2.0)),
        ("InverseGamma(a=2, b=0.5)", wt.InverseGamma(2.0, 0.5)),
        ("inverse_gamma( 2 , b = 1e-1 )", wt.InverseGamma(2.0, 0.1)),
        ("burr-xii(2, 1)", wt.BurrXII(2.0, 1.0)),
        ("log-normal", wt.LogNormal()),
        ("log-normal(-1, .5)", wt.LogNormal(-1.0, 0.5)),
        ("half-cauchy(scale=2)", wt.HalfCauchy(2.0)),
        ("point-mass(1)", wt.PointMass(1.0)),
    ],
)
def test_priors(text, expected):
    assert repr(parse_prior(text)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mlp", wt.nn.mlp(2, "relu")),
        ("mlp(3, erf)", wt.nn.mlp(3, "erf")),
        ("mlp(depth=3, activation=erf, weight_var=1, bias_var=0)", wt.nn.mlp(3, "erf", weight_var=1.0, bias_var=0.0)),
        ("mlp(ard=true)", wt.nn.mlp(2, weight_var=np.full(4, 2.0))),
        ("resnet(blocks=1)", wt.nn.resnet(1)),
        ("rbf(length_scale=2)", wt.kernels.RBF(2.0)),
        ("matern(nu=1.5)", wt.kernels.Matern(nu=1.5)),
    ],
)
def test_nets(text, expected):
    made = parse_net(text)(4)
    assert jax.tree.structure(made) == jax.tree.structure(expected)
    assert repr(made) == repr(expected)


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        (parse_prior, "inverse-gama(2,2)", ["'inverse-gama'", "inverse-gamma(a, b)", "burr-xii(c, k, scale=1.0)"]),
        (parse_prior, "inverse-gamma(2)", ["'b'", "inverse-gamma(a, b)"]),
        (parse_prior, "inverse-gamma(2, 2, 2)", ["inverse-gamma(a, b)"]),
        (parse_prior, "inverse-gamma(-1, 2)", ["inverse-gamma", "a"]),
        (parse_prior, "inverse-gamma(2, 2", ["'(' was never closed"]),
        (parse_prior, "inverse-gamma(2, 2))", ["unmatched ')'"]),
        (parse_prior, "", ["invalid syntax", "name(1.5, key=2)"]),
        (parse_prior, "gamma(a=1, a=2)", ["twice"]),
        (parse_prior, "gamma(a=1, 2)", ["positional argument follows"]),
        (parse_prior, "__import__('os').system('true')", ["not a name with arguments"]),
        (parse_prior, "gamma(__import__('os'), 1)", ["neither a name nor a number"]),
        (parse_net, "mlp(depth=0)", ["depth must be a positive integer"]),
        (parse_net, "mlp(depth=2, activation=reul)", ["relu", "'reul'"]),
        (parse_net, "mlp(width=512)", ["'width'", "mlp(depth=2, activation=relu"]),
        (parse_net, "transformer", ["mlp(", "cnn(", "resnet("]),
        (parse_net, "mlp(depth=1e)", ["invalid decimal literal"]),
    ],
)
def test_what_cannot_be_read_says_what_can(parse, text, words, as_users_call):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert all(word in str(caught.value) for word in words), str(caught.value)
