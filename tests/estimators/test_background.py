"""Images around their background: what the shift is, and what does not change a model."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits

import widetail as wt
from widetail import nn
from widetail.estimators._background import around_background
from widetail.sparse import TrainingOptions

NET = nn.Sequential(nn.Conv(3, weight_var=2.0, bias_var=0.001), nn.Relu(), nn.Flatten())


def framed(value, height=5, width=4, channels=2, n=7):
    """Noise inside of a frame, four fifths of which have one value."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, height, width, channels))
    inside = x[:, 1:-1, 1:-1].copy()
    x[:] = np.where(rng.random(x.shape) < 0.8, value, x)
    x[:, 1:-1, 1:-1] = inside
    return x


@pytest.mark.parametrize("magnitude", [1.0, 1e200, 1e-200])
def test_the_background_is_zero_and_the_mean_square_one(magnitude):
    x = magnitude * framed(3.0)
    scaling = around_background(x)
    assert_allclose(scaling.shift, 3.0 * magnitude)
    assert_allclose(np.mean(scaling.apply(x) ** 2), 1.0)


def test_an_image_observed_twice_counts_twice():
    x = framed(-1.0) + np.arange(7)[:, None, None, None]
    counts = np.array([3.0, 1.0, 2.0, 1.0, 1.0, 5.0, 1.0])
    found, expected = around_background(x, counts), around_background(np.repeat(x, counts.astype(int), axis=0))
    assert_allclose([found.shift, found.factor], [expected.shift, expected.factor], rtol=1e-12)
    assert not np.allclose(found.shift, around_background(x).shift)


def test_images_of_one_colour_are_empty():
    x = np.full((4, 3, 3, 1), 7.0)
    assert_allclose(around_background(x).apply(x), 0.0)


@pytest.mark.slow
def test_units_offset_and_sign_of_pixels_do_not_matter():
    """Weights are symmetric, so that white on black is black on white."""
    x, y = load_digits(n_class=3, return_X_y=True)
    x = x.reshape(-1, 8, 8)
    first, second = (
        wt.SparseMixtureClassifier(NET, inducing=20, options=TrainingOptions(residual_share=0.0))
        .fit(pixels[:150], y[:150])
        .predict_proba(pixels)
        for pixels in (x, 255.0 - 7.0 * x)
    )
    assert np.mean(first.argmax(axis=1) == y) > 0.95
    assert_allclose(first, second, atol=1e-4)
