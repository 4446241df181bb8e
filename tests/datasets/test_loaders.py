import jaxtyping
import numpy as np
import pytest

from widetail import datasets
from widetail.datasets._archives import IMAGE_ARCHIVES, UCI_ARCHIVES
from widetail.datasets._convert import content_digest

SIZES = {
    "boston": (506, 13),
    "concrete": (1030, 8),
    "energy": (768, 8),
    "kin8nm": (8192, 8),
    "naval": (11934, 16),
    "power": (9568, 4),
    "wine_red": (1599, 11),
    "yacht": (308, 6),
}
IMAGE_SIZES = {
    "mnist": ((60000, 28, 28), (10000, 28, 28), True),
    "fashion_mnist": ((60000, 28, 28), (10000, 28, 28), True),
    "kmnist": ((7011, 28, 28), (10000, 28, 28), False),
    "emnist_letters": ((20000, 28, 28), (20800, 28, 28), False),
    "cifar10": ((10000, 32, 32, 3), (10000, 32, 32, 3), False),
    "svhn": ((4000, 32, 32, 3), (5000, 32, 32, 3), False),
    "notmnist": ((0, 28, 28), (10000, 28, 28), True),
}


@pytest.mark.parametrize("name", datasets.UCI_NAMES)
def test_uci_tables_and_their_standard_splits(data_folder, name):
    data = datasets.load_regression(name)
    assert data.x.shape == SIZES[name]
    assert len(data.feature_names) == data.x.shape[1]
    assert data.n_splits == 20
    train_rows, test_rows = datasets.standard_splits(data.y.size)
    np.testing.assert_array_equal(data.train_rows, train_rows)
    np.testing.assert_array_equal(data.test_rows, test_rows)
    for key, content in UCI_ARCHIVES[name].contents.items():
        assert content_digest(getattr(data, key)) == content.digest


@pytest.mark.parametrize("name", IMAGE_ARCHIVES)
def test_images(data_folder, name):
    data = datasets.load_images(name)
    assert (data.x_train.shape, data.x_test.shape, data.complete) == IMAGE_SIZES[name]
    assert set(np.unique(data.y_test).tolist()) == set(data.class_names)
    for key, content in IMAGE_ARCHIVES[name].contents.items():
        assert content_digest(getattr(data, key)) == content.digest


def test_embedded_regression_is_the_default():
    data = datasets.load_regression()
    assert (data.name, data.x.shape, data.n_splits) == ("diabetes", (442, 10), 20)
    split = data.split(19)
    assert split.x_train.shape == (398, 10)
    assert split.y_test.shape == (44,)
    assert set(data.train_rows[19]) | set(data.test_rows[19]) == set(range(442))


def test_embedded_images_are_the_default():
    data = datasets.load_images()
    assert (data.name, data.x_train.shape, data.x_test.shape) == ("digits", (1300, 8, 8), (497, 8, 8))
    assert (data.x_train.min(), data.x_train.max()) == (0, 255)
    assert np.bincount(data.y_test, minlength=10).min() > 30
    np.testing.assert_array_equal(data.x_test, datasets.load_images("digits").x_test)


@pytest.mark.parametrize("load", [datasets.load_regression, datasets.load_images])
def test_unknown_names_are_answered_with_the_known_ones(load):
    with pytest.raises(ValueError, match=r"name must be one of di.*; got 'iris'"):
        load("iris")


def test_split_numbers_are_checked():
    with pytest.raises(ValueError, match=r"must be 0 to 19, got 20"):
        datasets.load_regression().split(20)


def test_standard_splits_partition_the_rows():
    train_rows, test_rows = datasets.standard_splits(11)
    assert (train_rows.shape, test_rows.shape) == ((20, 10), (20, 1))
    np.testing.assert_array_equal(np.sort(np.hstack([train_rows, test_rows])), np.tile(np.arange(11), (20, 1)))
    with pytest.raises(ValueError, match="n must be 2"):
        datasets.standard_splits(1)


def test_standardiser_on_the_training_part():
    split = datasets.load_regression().split(0)
    scaler = datasets.Standardiser.fit(split.x_train, split.y_train)
    np.testing.assert_allclose(scaler.x(split.x_train).mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaler.x(split.x_train).std(axis=0), 1)
    np.testing.assert_allclose(scaler.y(split.y_train).std(), 1)
    np.testing.assert_allclose(scaler.y_back(scaler.y(split.y_test)), split.y_test)
    assert scaler.log_y_std == pytest.approx(np.log(split.y_train.std()))


def test_constant_columns_are_safe():
    x = np.column_stack([np.full(1000, 0.998), np.arange(1000.0)])
    scaler = datasets.Standardiser.fit(x, np.full(1000, 0.1))
    np.testing.assert_array_equal(scaler.x(x)[:, 0], 0)
    np.testing.assert_array_equal(scaler.y(np.full(3, 0.1)), 0)
    assert scaler.x_std[0] == 1
    assert scaler.y_std == 1


def test_standardiser_names_what_does_not_fit(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    x, y = np.zeros((4, 2)), np.zeros(4)
    scaler = datasets.Standardiser.fit(x, y)
    with pytest.raises(ValueError, match="x_train has 4, y_train has 3"):
        datasets.Standardiser.fit(x, y[:3])
    with pytest.raises(ValueError, match=r"y_train \(n,\), got \(4, 2\) and \(4, 1\)"):
        datasets.Standardiser.fit(x, y[:, None])
    with pytest.raises(ValueError, match="must have 2 columns"):
        scaler.x(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="no rows"):
        datasets.Standardiser.fit(x[:0], y[:0])
