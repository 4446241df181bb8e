"""Ensembles trained on minibatches: seeds, both loops, early stopping, checkpoints, divergence."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from widetail import finite, nn

NETWORK = finite.ScaledNetwork(nn.mlp(1, "relu"), 16, outputs=2)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 3))
Y = (X[:, 0] > 0).astype(int)
SCALES = np.array([0.3, 1.0, 5.0])


def fit(**options):
    settings = {"key": jax.random.key(0), "loss": "cross_entropy", "batch_size": 16, "max_epochs": 4} | options
    return finite.fit_ensemble(NETWORK, SCALES, X, Y, **settings)


@pytest.fixture(scope="module")
def trained():
    return fit()


def same(first, second):
    return all(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(second)))


def test_losses_fall_for_every_member(trained):
    assert trained.train_losses.shape == (4, 3)
    assert np.all(trained.train_losses[-1] < trained.train_losses[0])
    assert trained.outputs(X).shape == (3, 50, 2)


def test_seeds_reproduce_bit_for_bit_and_differ(trained):
    assert same(trained.parameters, fit().parameters)
    assert not same(trained.parameters, fit(key=jax.random.key(1)).parameters)


def test_together_and_in_turn_are_one_computation(trained):
    """Up to rounding: 16 steps of Adam in single precision."""
    for mode in ("together", "in_turn"):
        assert_allclose(fit(members=mode).train_losses, trained.train_losses, rtol=1e-3)


@pytest.mark.slow
def test_an_epoch_against_a_plain_loop():
    """One member, one batch: Adam's first step moves every parameter by the learning rate against its gradient."""
    key = jax.random.key(0)
    one = finite.fit_ensemble(
        NETWORK, [2.0], X, Y, key=key, loss="cross_entropy", batch_size=64, max_epochs=1, learning_rate=0.02
    )
    start = NETWORK.init(jax.random.fold_in(key, np.uint32(0)), (3,), 2.0)
    x = np.asarray(X, np.float32)

    def loss(parameters):
        return -np.float32(1 / 50) * jax.nn.log_softmax(NETWORK.apply(parameters, 2.0, x))[np.arange(50), Y].sum()

    value, gradient = jax.value_and_grad(loss)(start)
    assert_allclose(one.train_losses[0, 0], value, rtol=1e-5)
    for before, after, slope in zip(*map(jax.tree.leaves, (start, one.parameters, gradient)), strict=True):
        moved = np.abs(np.asarray(slope)) > 1e-4
        assert_allclose((after[0] - before)[moved], -0.02 * np.sign(slope)[moved], rtol=1e-2)


def test_early_stopping_keeps_the_best_epoch_of_each_member():
    noise = np.random.default_rng(1).integers(0, 2, 50)  # nothing to learn: held-out rows get worse
    options = {"key": jax.random.key(0), "loss": "cross_entropy", "batch_size": 16, "learning_rate": 0.1}
    held_out = np.arange(50) >= 40
    result = finite.fit_ensemble(NETWORK, SCALES, X, noise, max_epochs=60, patience=3, held_out=held_out, **options)
    assert len(result.train_losses) < 60
    best = np.asarray(result.best_epochs)
    assert np.array_equal(best, 1 + np.argmin(np.where(np.isnan(result.validation_losses), np.inf,
                                                       result.validation_losses), axis=0)) or np.all(
        result.validation_losses[best - 1, np.arange(3)] < result.validation_losses.min(0) + 1e-4
    )  # fmt: skip
    # the parameters are those of that epoch: fewer epochs without the held-out rows give them too
    again = finite.fit_ensemble(NETWORK, SCALES, X[:40], noise[:40], max_epochs=int(best[0]), **options)
    assert_allclose(again.outputs(X)[0], result.outputs(X)[0], rtol=1e-5)


@pytest.mark.parametrize("mode", ["together", "in_turn"])
def test_members_hold_out_rows_of_their_own(mode):
    """What a member becomes in an epoch depends on the targets that it does not hold out, and on no other."""
    held_out = np.zeros((3, 50), bool)
    for member in range(3):
        held_out[member, 10 * member : 10 * member + 20] = True
    changed = np.where(np.arange(50) < 10, 1 - Y, Y)  # rows that the first member holds out, and it alone
    before, after = (
        finite.fit_ensemble(
            NETWORK, SCALES, X, y, held_out=held_out, members=mode, key=jax.random.key(0), loss="cross_entropy",
            batch_size=16, max_epochs=1,
        )
        for y in (Y, changed)
    )  # fmt: skip
    assert np.array_equal(before.outputs(X)[0], after.outputs(X)[0])
    assert before.train_losses[0, 0] == after.train_losses[0, 0]
    assert before.validation_losses[0, 0] != after.validation_losses[0, 0]
    assert not np.array_equal(before.outputs(X)[1:], after.outputs(X)[1:])
    f, rows = before.outputs(X)[2], held_out[2]
    expected = -np.mean(jax.nn.log_softmax(f[rows])[np.arange(rows.sum()), Y[rows]])
    assert_allclose(before.validation_losses[0, 2], expected, rtol=1e-6)


class StopHereError(Exception):
    pass


def test_an_interrupted_run_resumes_to_the_same_bits(trained, tmp_path):
    path = tmp_path / "run.checkpoint"

    def stop(done, total):
        if done == 2:
            raise StopHereError

    with pytest.raises(StopHereError):
        fit(checkpoint=path, progress=stop)
    epochs = []
    resumed = fit(checkpoint=path, progress=lambda done, total: epochs.append(done))
    assert epochs == [2, 3, 4]
    assert same(resumed.parameters, trained.parameters)
    assert np.array_equal(resumed.train_losses, trained.train_losses)


def test_checkpoints_of_other_runs_and_damaged_ones_are_refused(tmp_path):
    path = tmp_path / "run.checkpoint"
    fit(checkpoint=path, max_epochs=1)
    with pytest.raises(ValueError, match="other data or settings"):
        fit(checkpoint=path, learning_rate=0.5)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="damaged"):
        fit(checkpoint=path)


def test_divergence_is_named_and_leaves_no_model():
    network = finite.ScaledNetwork(nn.mlp(3, "relu"), 8)
    with pytest.raises(finite.DivergenceError, match=r"diverged in epoch \d+: .* of 2 networks is NaN or infinite"):
        finite.fit_ensemble(
            network, [1.0, 4.0], X, X[:, :1], key=jax.random.key(0), learning_rate=1e12, max_epochs=20, batch_size=16
        )


@pytest.mark.parametrize(
    ("net", "together"), [(nn.mlp(2), True), (nn.cnn(1), False), (nn.Sequential(nn.Residual(nn.Conv(3))), False)]
)
def test_convolutions_are_trained_in_turn_on_a_cpu(net, together):
    if jax.default_backend() == "cpu":
        assert finite._ensemble._together("auto", finite.ScaledNetwork(net, 4)) == together


@pytest.mark.usefixtures("as_users_call")
def test_bad_input():
    for message, options in {
        "loss must be": {"loss": "hinge"},
        "learning_rate must be": {"learning_rate": 0.0},
        "batch_size must be": {"batch_size": 0},
        "members must be": {"members": "both"},
        r"held_out must be booleans, .* got int64 of shape \(50,\)": {"held_out": Y},
        "held_out must leave every member rows": {"held_out": np.ones(50, bool)},
    }.items():
        with pytest.raises(ValueError, match=message):
            fit(**options)
    with pytest.raises(ValueError, match="class numbers from 0 to 1"):
        finite.fit_ensemble(NETWORK, SCALES, X, Y + 1, key=jax.random.key(0), loss="cross_entropy")
    with pytest.raises(ValueError, match="scales must be positive"):
        finite.fit_ensemble(NETWORK, [0.0], X, Y, key=jax.random.key(0), loss="cross_entropy")


@pytest.mark.parametrize("parametrisation", ["ntk", "standard"])
def test_no_bias_means_no_parameters(parametrisation):
    body = nn.Sequential(nn.Dense(weight_var=[1.0, 2.0, 0.5]), nn.Relu())
    network = finite.ScaledNetwork(body, 4, parametrisation=parametrisation)
    again = finite.ScaledNetwork(nn.Sequential(nn.Dense(weight_var=[1.0, 2.0, 0.5]), nn.Relu()), 4)
    assert (network == again) == (parametrisation == "ntk")
    found = finite.fit_ensemble(network, [1.0], X, X[:, :1], key=jax.random.key(0), max_epochs=1, learning_rate=1e-3)
    assert set(found.parameters["body"][0]) == {"weight"}
