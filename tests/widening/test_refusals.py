"""What has no limit is refused, with the line and the reason."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widetail as wt
from tests.widening.models import plain_models
from tests.widening.models.equinox_models import TransformerBlock


def pair(apply, **shapes):
    def init(width, key):
        return plain_models.normal(key, **{k: tuple(width if s == "n" else s for s in v) for k, v in shapes.items()})

    return init, apply


def refused(apply, match, shape=(3,), **shapes):
    with pytest.raises(wt.WidenError, match=match) as raised:
        wt.widen(pair(apply, **shapes), shape)
    return raised.value


SHAPES = {"u": (3, "n"), "w": ("n", "n"), "v": ("n", 1)}


def test_a_matrix_and_its_transpose():
    def apply(p, x):
        h = jnp.tanh(jnp.tanh(x @ p["u"]) @ p["w"])
        return jnp.tanh(h @ p["w"].T) @ p["v"]

    error = refused(apply, "transpose", **SHAPES)
    assert error.place.file == __file__
    assert 'p["w"].T' in error.place.text


@pytest.mark.slow
def test_logits_scaled_by_the_root_of_the_width():
    with pytest.raises(wt.WidenError, match=r"power 0.5.*1/sqrt\(n\)") as raised:
        wt.widen(lambda width, key: TransformerBlock(width, key, power=0.5), (2, 3))
    # the line where the logits go through a softmax, not the readout, which is the first to need them
    assert "softmax(logits" in raised.value.place.text


@pytest.mark.parametrize(
    ("apply", "match"),
    [
        (lambda p, x: jax.nn.softmax(x @ p["u"], axis=-1) @ p["v"], "maximum across the width"),
        (lambda p, x: jnp.max(x @ p["u"], axis=-1, keepdims=True), "maximum across the width"),
        (lambda p, x: jnp.sort(x @ p["u"], axis=-1) @ p["v"], "sort"),
        (lambda p, x: jnp.tanh(jnp.tanh(x @ p["u"])[..., ::-1] * (x @ p["u"])) @ p["v"], "out of step"),
        (lambda p, x: jnp.tanh(x @ p["u"])[..., :5] @ jnp.ones((5, 1)), "averages"),
        (lambda p, x: jax.nn.sigmoid(jnp.tanh(x @ p["u"]) @ p["v"]), "applied to outputs"),
        (
            lambda p, x: jnp.tanh(x @ p["u"] / jnp.sqrt(p["u"].shape[1])) @ p["v"],
            "from_init|power -0.5|variance 1/fan-in",
        ),
        (lambda p, x: jnp.tanh(x @ p["u"]).mean(-1, keepdims=True), "does not vary from network to network"),
        (lambda p, x: jnp.tanh(x @ p["u"] * p["u"].shape[1]) @ p["v"], "width to the power 1"),
        (
            lambda p, x: jnp.tanh((x @ p["u"]) * jnp.sum(jnp.tanh(x @ p["u"]) ** 2, -1, keepdims=True)) @ p["v"],
            "width to the power 1",
        ),
        (
            lambda p, x: (jnp.tanh(x @ p["u"]) + jax.random.normal(jax.random.key(0), p["v"].shape[:1])) @ p["v"],
            "drawn in the model",
        ),
        (lambda p, x: (jnp.tanh(x @ p["u"]) @ p["v"], x), "must return one array; it returns tuple"),
        (
            lambda p, x: jax.lax.while_loop(lambda h: jnp.mean(h * h) > 1, lambda h: h / 2, x @ p["u"]) @ p["v"],
            "length depends on the data",
        ),
        (lambda p, x: jnp.tanh(x @ p["u"] * p["v"][:, 0]) @ p["v"], "in two ways|different axes"),
        (lambda p, x: jnp.tanh(x @ p["u"] * 0) @ p["v"], "does not depend on its input"),
        (lambda p, x: jnp.tanh(x[:, :1] @ p["u"][:1] + x[:, 1:] @ p["u"][1:]) @ p["v"], "a part of 'u' is summed over"),
        (
            lambda p, x: (lambda h: h / jnp.linalg.norm(h, axis=-1, keepdims=True))(jnp.tanh(x @ p["u"])) @ p["v"],
            "width to the power -0.5",
        ),
    ],
    ids=[
        "softmax", "max", "sort", "reversed", "slice", "output", "scaled twice", "average", "times the width",
        "a sum over the width", "noise", "two results", "a loop of unknown length", "a readout as a scale", "zero",
        "a part of the rows", "length one",
    ],
)  # fmt: skip
def test_has_no_limit(apply, match):
    refused(apply, match, u=(3, "n"), v=("n", 1))


def test_a_sum_of_gaussian_entries_is_no_mean_of_zero():
    def apply(p, x):
        h = x @ p["u"]
        return jnp.tanh(h + h.sum(-1, keepdims=True) / h.shape[-1] ** 0.5) @ p["v"]

    refused(apply, "width to the power 0.5", u=(3, "n"), v=("n", 1))


def test_a_scale_that_init_draws_has_to_be_told():
    def apply(p, x):
        return jnp.tanh(jnp.tanh(x @ p["u"]) * p["g"]) @ p["v"]

    shapes = {"u": (3, "n"), "g": ("n",), "v": ("n", 1)}
    refused(apply, "'g' multiplies, and init draws it at random", **shapes)
    x = np.random.default_rng(0).normal(size=(2, 3))
    wide = wt.widen(pair(apply, **shapes), (3,), variances={"g": 1.0})
    assert np.all(wide.kernel(x, get="nngp").nngp.diagonal() > 0.01)


def test_a_mask_that_leaves_nothing():
    def apply(p, x):
        there = (x[..., -1:] > 0).astype(x.dtype)
        return ((jnp.tanh(x @ p["u"]) * there).sum(1) / there.sum(1)) @ p["v"]

    wide = wt.widen(pair(apply, u=(3, "n"), v=("n", 1)), (2, 3))
    with pytest.raises(ValueError, match="not finite"):
        wide.kernel(-np.ones((2, 2, 3)))


def test_groups_of_few_channels():
    def apply(p, x):
        h = jnp.tanh(x @ p["u"])
        groups = p["f"].shape[2]
        h = jax.lax.conv_general_dilated(
            h, p["f"], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=groups // 4
        )
        return h.mean(1) @ p["v"]

    refused(
        apply, "groups, a number that follows the width, of 4 channels", (4, 3), u=(3, "n"), f=(3, 4, "n"), v=("n", 1)
    )


def test_bad_arguments():
    with pytest.raises(ValueError, match="width"):
        wt.widen(3, (3,))
    with pytest.raises(ValueError, match=r"fits no parameter.*'u'"):
        wt.widen(plain_models.tied, (3,), variances={"nothing": 1.0})
    with pytest.raises(ValueError, match=r"constants\['w'\]: it is wide"):
        wt.widen(plain_models.tied, (3,), constants={"w": 1.0})
    with pytest.raises(ValueError, match="same proportions"):
        wt.widen(plain_models.two_layers, (3,), widths=((24, 24), (48, 50)))
    wide = wt.widen(plain_models.two_layers, (3,))
    with pytest.raises(ValueError, match=r"x1 must have rows of shape \(3,\)"):
        wide.kernel(np.ones((2, 4)))
