"""Sparse estimators among scikit-learn's checks, in files, and on streams."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import widetail as wt
from tests.estimators.scikit_learn_checks import checks_of
from widetail import nn, programs, sparse

FIXED = {"net": nn.mlp(1, "erf"), "inducing": 12, "learn": False}
FEW = sparse.TrainingOptions(max_iterations=4)
QUICK = FIXED | {"options": sparse.TrainingOptions(max_iterations=12)}

MODELS = (wt.SparseMixtureClassifier(**QUICK), wt.SparseMixtureRegressor(**QUICK))
QUICK_CHECKS = {
    "check_dict_unchanged",
    "check_estimators_unfitted",
    "check_fit2d_1sample",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
}


# Weights are repeated rows exactly in the bound, but repeated rows come in another random order.
UNEQUAL = {"check_sample_weight_equivalence_on_dense_data": "inducing inputs and draws depend on the order of rows"}


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(("estimator", "check"), checks_of(MODELS, QUICK_CHECKS, UNEQUAL))
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (150, 2))
    return x, np.where(x[:, 0] + 0.3 * rng.normal(size=150) > 0.5, "b", np.where(x[:, 1] > 0, "c", "a"))


@pytest.fixture(scope="module")
def classifier(table):
    return wt.SparseMixtureClassifier(**QUICK).fit(*table)


def test_classes_and_their_probabilities(table, classifier):
    x, y = table
    assert classifier.score(x, y) > 0.85
    p = classifier.predict_proba(x)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert_allclose(classifier.log_score(x, y), np.mean(np.log(p[np.arange(150), np.searchsorted(["a", "b", "c"], y)])))
    entropy, information = classifier.entropy(x), classifier.mutual_information(x)
    assert np.all((information >= 0) & (information <= entropy + 1e-9) & (entropy <= np.log(3) + 1e-9))
    far = np.array([[30.0, -25.0]])
    assert classifier.mutual_information(far)[0] > np.median(information)
    assert classifier.predict_dist(x).mean.shape == (150, 3)


def test_probabilities_to_three_digits(table, classifier):
    """Against plain Monte Carlo with many draws of its own: latent values and scales."""
    x = table[0][:6]
    mean, variance = classifier.model_.latent(classifier._new_inputs(x))
    rng = np.random.default_rng(0)
    draws = 200_000
    scale = classifier.model_.q.law.quantile(rng.uniform(size=draws))
    f = mean[:, None] + np.sqrt(variance)[:, None] * np.sqrt(scale)[:, None] * rng.normal(size=(6, draws, 3))
    p = np.exp(f - f.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    error = p.std(axis=1) / np.sqrt(draws)
    found = classifier.predict_proba(x)
    assert np.all(np.abs(found - p.mean(axis=1)) < 1e-3 + 4 * error)
    other = sparse.class_probabilities(mean, variance, classifier.model_.q.law, seed=7)[0]
    assert np.max(np.abs(found - other)) < 1e-3


def test_same_seed_same_model(table, classifier):
    again = clone(classifier).fit(*table)
    assert np.array_equal(again.predict_proba(table[0]), classifier.predict_proba(table[0]))


@pytest.fixture(scope="module")
def outliers():
    """Inputs, a sine, and the sine with a little noise and ten targets far from it."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(-2.0, 2.0, (150, 1)), axis=0)
    f = np.sin(2 * x[:, 0])
    y = f + 0.1 * rng.normal(size=150)
    y[::15] += 8.0
    return x, f, y


@pytest.fixture(scope="module")
def robust(outliers):
    x, _, y = outliers
    return wt.SparseMixtureRegressor(**QUICK, likelihood="student_t").fit(x, y)


def test_files_without_the_training_data(table, classifier, outliers, robust, tmp_path):
    x, y = table
    classifier.save(tmp_path / "model")
    loaded = wt.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(x), classifier.predict_proba(x))
    assert_allclose(loaded.partial_fit(x[:20], y[:20]).predict_proba(x), clone_after(classifier, x, y), atol=1e-6)
    robust.save(tmp_path / "numbers")
    new = outliers[0][:20]
    assert np.array_equal(
        wt.load(tmp_path / "numbers").predict_dist(new).quantile(0.9), robust.predict_dist(new).quantile(0.9)
    )
    (tmp_path / "model").write_bytes((tmp_path / "model").read_bytes()[:-9])
    with pytest.raises(ValueError, match="damaged"):
        wt.load(tmp_path / "model")


def clone_after(model, x, y):
    """What a model says after more rows, without changing it."""
    other = clone(model)
    other.__dict__.update(model.__dict__)
    return other.partial_fit(x[:20], y[:20]).predict_proba(x)


def test_streams(table):
    x, y = table
    model = wt.SparseMixtureClassifier(**QUICK)
    for start in range(0, 150, 50):
        rows = slice(start, start + 50)
        model.partial_fit(x[rows], y[rows], classes=["a", "b", "c"])
    assert model.model_.memory.observations == 150
    assert model.score(x, y) > 0.8
    with pytest.raises(ValueError, match="among classes_"):
        model.partial_fit(x[:3], ["a", "b", "z"])
    with pytest.raises(ValueError, match="first call"):
        wt.SparseMixtureClassifier(**QUICK).partial_fit(x, y)


SHORT = {"learn": True, "net": nn.mlp(1, "erf"), "inducing": 10}


def answers(model, x):
    """Everything that a stream could have got wrong: units, kernel, inducing inputs, posterior, likelihood."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(x)
    return np.column_stack([model.predict(x), *model.predict_interval(x, 0.9)])


def check_stream(make, x, y, calls, path, **first):
    whole, stream = make().fit(x, y), make()
    for count, part in enumerate(np.array_split(np.arange(len(x)), calls)):
        stream.partial_fit(x[part], y[part], **({} if count else first))
        stream.save(path)
        stream = wt.load(path)
    assert np.array_equal(answers(stream, x), answers(whole, x))
    return stream


def test_a_short_stream_ends_at_its_table_whatever_its_first_rows_were(tmp_path):
    """The first ten rows have other means and spreads than all of them."""
    x = np.concatenate([np.linspace(0.0, 0.1, 10), np.linspace(-2.0, 2.0, 30)])[:, None]
    y = np.sin(2 * x[:, 0]) + np.where(np.arange(40) % 2, 0.1, -0.1)
    options = SHORT | {"learn": False, "options": sparse.TrainingOptions(max_iterations=12)}
    stream = check_stream(lambda: wt.SparseMixtureRegressor(**options), x, y, 4, tmp_path / "m")
    assert_allclose(stream.x_scaling_.shift, x.mean(axis=0))
    kernel = stream.kernel_
    stream.partial_fit(x[:3], y[:3])
    assert stream.kernel_ is kernel, "three rows more are no reason to learn the kernel anew"
    assert len(stream.first_rows_.x) == 43
    stream.learn_rows = 50
    stream.partial_fit(x[:7], y[:7])
    assert stream.first_rows_ is None, "enough to learn from"
    assert stream.model_.memory.observations == 50
    assert stream.fit(x, y).first_rows_ is None, "files of tables hold none of their rows"


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["gaussian", "student_t", "poisson", "bernoulli", "categorical"])
@pytest.mark.parametrize(
    "prior", [wt.InverseGamma(2.0, 2.0), wt.PointMass(1.0), wt.LogNormal(0.0, 1.0)], ids=lambda one: type(one).__name__
)
def test_ten_calls_end_where_one_table_ends(likelihood, prior, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (300, 1))
    f = np.sin(2 * x[:, 0])
    if likelihood in ("bernoulli", "categorical"):
        count = 2 if likelihood == "bernoulli" else 3
        y = np.array(list("abc"))[
            np.clip(np.round(f + 0.4 * rng.normal(size=300)) + count - 2, 0, count - 1).astype(int)
        ]
        make = lambda: wt.SparseMixtureClassifier(**SHORT, prior=prior)  # noqa: E731
        check_stream(make, x, y, 10, tmp_path / "m", classes=list("abc")[:count])
        return
    noise = {"gaussian": rng.normal(size=300), "student_t": rng.standard_t(4.0, size=300)}
    y = rng.poisson(np.exp(1 + f)).astype(float) if likelihood == "poisson" else f + 0.3 * noise[likelihood]
    make = lambda: wt.SparseMixtureRegressor(**SHORT, prior=prior, likelihood=likelihood)  # noqa: E731
    check_stream(make, x, y, 10, tmp_path / "m")


@pytest.mark.slow
def test_a_stream_beyond_what_a_kernel_is_learned_from_ends_at_exact_inference():
    """The law of the scale in all digits; widths are measured on rows of every call, and nearly those of one table."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (300, 1))
    y = np.sin(2 * x[:, 0]) + 0.25 * rng.normal(size=300)
    net, given = wt.nn.mlp(2, "erf"), sparse.TrainingOptions(learn_likelihood=False)
    shared = {"net": net, "inducing": 30, "learn": False, "standardise": False, "options": given}
    stream = wt.SparseMixtureRegressor(**shared, learn_rows=30)
    for part in np.split(np.arange(300), 10):
        stream.partial_fit(x[part], y[part])
    whole, law = wt.SparseMixtureRegressor(**shared).fit(x, y), stream.model_.q.law
    noise = wt.ScaledNoise(whole.model_.likelihood.noise)
    exact = wt.ScaleMixture(net, wt.InverseGamma(2.0, 2.0), noise).posterior(x, y).scale
    assert stream.model_.likelihood.noise == noise.variance
    assert_allclose(law.a, 2 + 150, rtol=1e-3)
    assert_allclose(law.b / law.a, 1 / exact.mean_precision, rtol=1e-3)
    first, second = (model.predict(x, return_std=True) for model in (stream, whole))
    assert_allclose(first[0], second[0], atol=0.01 * np.mean(second[1]))
    assert_allclose(first[1], second[1], rtol=0.05)


@pytest.mark.slow
def test_a_class_that_is_missing_from_a_batch(table):
    x, y = table
    model = wt.SparseMixtureClassifier(**QUICK).partial_fit(x[y != "c"], y[y != "c"], classes=["a", "b", "c"])
    p = model.predict_proba(x)
    assert p.shape == (150, 3)
    assert np.all(p[:, 2] < 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "student_t", "poisson"])
def test_regression(name):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (200, 1))
    f = np.sin(2 * x[:, 0])
    y = rng.poisson(np.exp(1 + f)) if name == "poisson" else 50 + 10 * (f + 0.2 * rng.normal(size=200))
    model = wt.SparseMixtureRegressor(**QUICK, likelihood=name).fit(x, y)
    expected = np.exp(1 + f) if name == "poisson" else 50 + 10 * f
    assert np.corrcoef(model.predict(x), expected)[0, 1] > 0.98
    lower, upper = model.predict_interval(x, 0.9)
    assert 0.83 < np.mean((lower <= y) & (y <= upper)) < 0.97
    assert_allclose(model.log_score(x, y), np.mean(model.predict_dist(x).log_prob(np.asarray(y, float))))
    if name == "gaussian":
        assert_allclose(np.sqrt(model.model_.likelihood.noise * 1 / model.model_.q.law.mean_precision), 0.27, rtol=0.3)


def test_student_t_noise_shrugs_off_outliers(outliers, robust):
    x, f, y = outliers
    plain = wt.SparseMixtureRegressor(**QUICK).fit(x, y)
    error, plain_error = (np.sqrt(np.mean((model.predict(x) - f) ** 2)) for model in (robust, plain))
    assert error < 0.12
    assert error < 0.3 * plain_error


def test_weights_are_repeated_rows():
    """To the tolerance of training: the inducing inputs are given, and rows come in another order."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (40, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=40)
    times = rng.integers(0, 4, 40)
    options = FIXED | {
        "inducing": np.linspace(-2.0, 2.0, 8)[:, None],
        "options": sparse.TrainingOptions(max_iterations=40, tolerance=1e-9),
    }
    weighted = wt.SparseMixtureRegressor(**options).fit(x, y, sample_weight=times)
    repeated = wt.SparseMixtureRegressor(**options).fit(np.repeat(x, times, axis=0), np.repeat(y, times))
    assert_allclose(weighted.predict(x), repeated.predict(x), atol=1e-4)
    assert_allclose(weighted.predict_dist(x).std, repeated.predict_dist(x).std, rtol=1e-3)
    assert_allclose(weighted.fit_.bound, repeated.fit_.bound, atol=1e-5)
    with pytest.raises(ValueError, match="at least one non-zero"):
        weighted.fit(x, y, sample_weight=np.zeros(40))


@pytest.mark.slow
def test_adam_from_the_estimator():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (200, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=200)

    def fitted(**given):
        training = sparse.TrainingOptions(selection="balanced", batch_size=100, max_iterations=30, **given)
        return wt.SparseMixtureRegressor(**FIXED | {"inducing": 6}, options=training).fit(x, y)

    fixed = fitted()
    moved = fitted(train_inputs=True, train_kernel=True, epochs=60)
    assert moved.fit_.bound > fixed.fit_.bound
    assert np.max(np.abs(moved.model_.whitening.inducing - fixed.model_.whitening.inducing)) > 0.01
    adam = fitted(optimiser="adam", epochs=300, learning_rate=0.03)
    assert np.array_equal(adam.model_.whitening.inducing, fixed.model_.whitening.inducing)
    assert adam.fit_.bound < fixed.fit_.bound  # natural gradients are at the optimum
    assert adam.score(x, y) > 0.7


@pytest.mark.slow
def test_minibatches_from_the_estimator(table):
    x, y = table
    whole = wt.SparseMixtureClassifier(**FIXED).fit(x, y)
    training = sparse.TrainingOptions(optimiser="stochastic", batch_size=50, epochs=20)
    model = wt.SparseMixtureClassifier(**FIXED, options=training).fit(x, y)
    assert whole.fit_.bound - 5e-3 < model.fit_.bound < whole.fit_.bound + 1e-4
    # sixty noisy steps: near the optimum, not at it
    assert np.mean(np.abs(model.predict_proba(x) - whole.predict_proba(x))) < 0.02
    assert model.partial_fit(x[:20], y[:20]).score(x, y) > 0.8


@pytest.mark.slow
def test_adam_heeds_its_options(table, tmp_path):
    x, y = table
    training = sparse.TrainingOptions(
        optimiser="adam",
        epochs=12,
        learning_rate=0.3,
        batch_size=32,
        early_stopping=True,
        patience=2,
        residual_share=0.5,
    )
    model = wt.SparseMixtureClassifier(**FIXED, options=training, checkpoint=str(tmp_path / "run")).fit(x, y)
    assert len(model.fit_.scores) == len(model.fit_.bounds) - 1 <= 12
    assert model.model_.residual_share == 0.5
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert model.model_.memory.observations == 135  # of 150, without those that were held out
    best = int(np.argmax(model.fit_.scores)) + 1
    short = dataclasses.replace(training, epochs=best, patience=5)
    again = wt.SparseMixtureClassifier(**FIXED, options=short).fit(x, y)
    assert_allclose(again.predict_proba(x), model.predict_proba(x), atol=1e-6)
    with pytest.raises(ValueError, match="scale must be 'bound' or 'given'"):
        sparse.TrainingOptions(optimiser="adam", scale="held_out")


@pytest.mark.slow
def test_sequences_of_programs_keep_their_axes():
    rng = np.random.default_rng(0)
    x = rng.normal([3.0, -100.0], [2.0, 50.0], size=(40, 3, 2))
    model = wt.SparseMixtureClassifier(programs.rnn(fn=nn.Relu()), inducing=8, learn=False, options=FEW)
    model.fit(x, x[:, :, 0].sum(axis=1) > 9.0)
    assert model.input_shape_ == (3, 2)
    assert_allclose(model.x_scaling_.shift, x.mean(axis=(0, 1)))
    assert model.model_.whitening.inducing.shape == (8, 3, 2)
    assert model.score(x, x[:, :, 0].sum(axis=1) > 9.0) > 0.8


@pytest.mark.slow
def test_sequences_of_unequal_lengths_stay_marked():
    x = np.random.default_rng(0).normal([3.0, -100.0], [2.0, 50.0], size=(40, 3, 2))
    packed = programs.pack([row[: 1 + number % 3] for number, row in enumerate(x)])
    model = wt.SparseMixtureRegressor(programs.packed_rnn, inducing=6, learn=False, options=FEW)
    model.fit(packed, x[:, 0, 0])
    assert set(np.unique(model.model_.whitening.inducing[..., -1])) <= {0.0, 1.0}


@pytest.mark.slow
def test_pipelines_frames_images_and_given_inducing_inputs(table):
    x, y = table
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), wt.SparseMixtureClassifier(**QUICK))
    assert cross_val_score(pipeline, x, y, cv=2).mean() > 0.7
    frame = pd.DataFrame(x, columns=["a", "b"])
    for inducing in (x[:10], frame[:10]):
        model = wt.SparseMixtureClassifier(**QUICK | {"inducing": inducing}, prior=wt.PointMass(1.0)).fit(frame, y)
        assert list(model.feature_names_in_) == ["a", "b"]
        assert model.model_.whitening.inducing.shape == (10, 4)  # features, and how far each is a gap
    with pytest.raises(ValueError, match=r"inducing must hold inputs of shape \(2,\), like X; got \(3,\)"):
        wt.SparseMixtureClassifier(**QUICK | {"inducing": np.ones((10, 3))}).fit(x, y)
    images = np.random.default_rng(0).normal(size=(40, 6, 6))
    net = nn.Sequential(nn.Conv(3), nn.Relu(), nn.Flatten())
    seen = wt.SparseMixtureClassifier(net, inducing=50, learn=False).fit(images, np.arange(40) % 2)
    assert seen.model_.whitening.inducing.shape == (40, 6, 6, 1)
    with pytest.raises(ValueError, match=r"inputs of shape \(6, 6, 1\)"):
        seen.predict(images[:, :, :5])
    for wrong, message in (
        (images[:, :5], r"\(6, 6, 1\), as in fit; got \(5, 6, 1\)"),
        (images.reshape(40, -1), r"got \(36,\)"),
        (images[0], r"got \(6,\). Of one input alone give X\[None\]"),
    ):
        with pytest.raises(ValueError, match=f"X must hold inputs of shape .*{message}"):
            seen.predict(wrong)
    images[3, 2, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        seen.predict(images)


def test_bad_targets_are_named(table):
    x, _ = table
    with pytest.raises(ValueError, match="one class"):
        wt.SparseMixtureClassifier(**QUICK).fit(x, np.zeros(150))
    with pytest.raises(ValueError, match="counts"):
        wt.SparseMixtureRegressor(**QUICK, likelihood="poisson").fit(x, x[:, 0])
    with pytest.raises(ValueError, match="from 0 to 2"):
        sparse.Categorical(3).check_targets(np.array([0, 3]))


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("inducing", 0),
        ("net", "mlp"),
        ("prior", 2.0),
        ("options", {"epochs": 3}),
    ],
)
def test_bad_parameters_are_named(table, parameter, value):
    with pytest.raises(ValueError, match=parameter):
        wt.SparseMixtureClassifier(**{parameter: value}).fit(*table)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("validation_fraction", 1.0),
        ("precision", "half"),
        ("scale", "best"),
        ("residual_share", 1.5),
        ("optimiser", "sgd"),
    ],
)
def test_bad_options_are_named(parameter, value):
    with pytest.raises(ValueError, match=parameter):
        sparse.TrainingOptions(**{parameter: value})


def test_early_stopping_and_other_priors(table):
    x, y = table
    training = sparse.TrainingOptions(max_iterations=12, early_stopping=True, patience=2)
    model = wt.SparseMixtureClassifier(**FIXED, options=training, prior=wt.LogNormal(0.0, 1.0)).fit(x, y)
    assert len(model.fit_.scores) == len(model.fit_.bounds)
    assert isinstance(model.model_.q.law, sparse.GridScale)
    assert model.score(x, y) > 0.8
