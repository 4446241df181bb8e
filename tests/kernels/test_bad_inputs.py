"""Bad inputs: the message names the argument, what was expected, and what arrived."""

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from widetail import nn, programs
from widetail.kernels import RBF

MLP = nn.Sequential(nn.Dense(weight_var=2.0), nn.Relu())
CNN = nn.Sequential(nn.Conv(3), nn.Relu(), nn.Flatten())
X = np.random.default_rng(0).normal(size=(4, 3))
IMAGES = np.ones((2, 4, 4, 1))


def with_entry(value):
    x = X.copy()
    x[2, 1] = value
    return x


FLOAT = "x1 must be float32 or float64; got"
BAD = {
    "nan": (MLP, with_entry(np.nan), r"x1 must be finite; 1 of its 12 entries are NaN or infinite, the first in row 2"),
    "infinity": (MLP, with_entry(-np.inf), "x1 must be finite; 1 of its 12 entries"),
    "one axis": (MLP, X[0], r"x1 must have rows and features, shape \(n, d\).*got shape \(3,\)"),
    "no axis": (MLP, np.float64(3.0), r"x1 must have rows and features.*got shape \(\)"),
    "no rows": (MLP, X[:0], r"x1 must not be empty; got shape \(0, 3\)"),
    "no features": (MLP, X[:, :0], r"x1 must not be empty; got shape \(4, 0\)"),
    "integers": (
        MLP,
        np.ones((4, 3), int),
        rf"{FLOAT} ndarray of dtype int64\. Convert it, for example with x1\.astype",
    ),
    "bytes of an image": (
        CNN,
        np.ones((2, 4, 4, 1), np.uint8),
        rf"{FLOAT} ndarray of dtype uint8.*scaled to \[-1, 1\]",
    ),
    "booleans": (MLP, X > 0, rf"{FLOAT} ndarray of dtype bool"),
    "half precision": (MLP, X.astype(np.float16), rf"{FLOAT} ndarray of dtype float16"),
    "complex": (MLP, X + 1j, rf"{FLOAT} ndarray of dtype complex128"),
    "other byte order": (MLP, X.astype(">f8"), rf"{FLOAT} ndarray of dtype >f8"),
    "text": (MLP, np.array([["a", "b", "c"]]), rf"{FLOAT} ndarray of dtype <U1\. Encode text"),
    "a word": (MLP, "features", rf"{FLOAT} str of dtype <U8\. Encode text"),
    "nothing": (MLP, None, rf"{FLOAT} NoneType"),
    "a data frame of text": (MLP, pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}), rf"{FLOAT} DataFrame.*Encode text"),
    "a sparse matrix": (MLP, scipy.sparse.csr_matrix(X), rf"{FLOAT} csr_matrix.*make sparse matrices dense"),
    "ragged rows": (MLP, [[1.0, 2.0], [3.0]], "x1 must be an array of numbers; got list"),
    "random keys": (MLP, jax.random.split(jax.random.key(0), 3), rf"{FLOAT} \w+ of dtype key"),
    "images into dense": (
        MLP,
        IMAGES,
        r"x1 of shape \(n, 4, 4, 1\) does not fit this network: nn\.Dense expects vectors, but it receives images with "
        r"positions \(4, 4\); put nn\.Flatten\(\) before it",
    ),
    "sequences into dense": (MLP, IMAGES[..., 0], r"x1 of shape \(n, 4, 4\).*receives sequences"),
    "vectors into conv": (CNN, X, r"x1 of shape \(n, 3\) does not fit.*nn\.Conv expects sequences.*receives vectors"),
    "four_axes": (
        CNN,
        np.ones((2, 3, 3, 3, 3, 1)),
        r"x1 of shape \(n, 3, 3, 3, 3, 1\).*at most three axes of positions",
    ),
    "images into rbf": (RBF(), IMAGES, r"x1 must hold vectors, shape \(n, d\), for RBF; got shape \(n, 4, 4, 1\)"),
    "rbf features": (RBF([1.0, 2.0]), X, "x1 has 3 features, but length_scale has 2 entries"),
}


@pytest.mark.parametrize("name", BAD)
def test_first_argument(name):
    kernel, x, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        kernel.kernel(x)


@pytest.mark.parametrize(
    ("x2", "message"),
    [
        (X[:, :2], r"agree in all axes but the first; x1 has shape \(4, 3\) and x2 has shape \(4, 2\)"),
        (X[0], r"x2 must have rows and features.*got shape \(3,\)"),
        (X.astype(np.float32), r"same dtype; got float64 and float32.*x2\.astype\(x1\.dtype\)"),
        (with_entry(np.nan), "x2 must be finite"),
        (X[:0], r"x2 must not be empty; got shape \(0, 3\)"),
        (np.ones((4, 3), int), "x2 must be float32 or float64; got ndarray of dtype int64"),
    ],
)
def test_second_argument(x2, message):
    with pytest.raises(ValueError, match=message):
        MLP.kernel(X, x2)


@pytest.mark.parametrize("call", [MLP.diagonal, MLP.cost, lambda x: MLP.kernel(X, x)], ids=["diagonal", "cost", "x2"])
def test_every_entrance_checks(call):
    with pytest.raises(ValueError, match="must be float32 or float64; got ndarray of dtype int64"):
        call(np.ones((4, 3), int))


def test_static_facts_are_checked_inside_a_transformation():
    with pytest.raises(ValueError, match=r"nn\.Dense expects vectors"):
        jax.jit(MLP.kernel)(np.ones((2, 3, 3), np.float32))


def test_large_but_finite_entries_are_accepted():
    """A sum that overflows is not an infinite entry."""
    x = np.full((2, 3), 1e308)
    with pytest.raises(ValueError, match="x1 must be finite"):
        MLP.kernel(np.array([[1e308, 1e308, np.inf]]))
    assert RBF(1e308).kernel(x).nngp[0, 1] == 1


def test_inputs_whose_products_would_overflow_are_refused():
    """Where they do not, single precision says what double precision says."""
    x = X.copy()
    x[1] = -x[0]
    net = nn.Sequential(nn.Dense(), nn.Erf())
    largest = (4e8 * x / np.max(np.abs(x))).astype("f4")
    np.testing.assert_allclose(net.kernel(largest).nngp, net.kernel(largest.astype(float)).nngp, atol=1e-3)
    with pytest.raises(
        ValueError, match=r"x1 has entries of size 8e\+08; beyond 4\.3e\+08 products of float32.*float64"
    ):
        net.kernel(2 * largest)
    program = programs.mlp(depth=1)
    for kernel in (net + RBF(), 2.0 * (net * net), program):
        with pytest.raises(ValueError, match=r"x2 has entries of size 1e\+90; beyond 1\.2e\+76 products of float64"):
            kernel.kernel(X, np.full((1, 3), -1e90))


@pytest.mark.parametrize("frame", [pd.DataFrame(X), X.tolist()])
def test_numbers_in_other_containers_are_accepted(frame):
    np.testing.assert_array_equal(MLP.kernel(frame).nngp, MLP.kernel(X).nngp)
