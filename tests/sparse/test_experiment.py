"""The sparse experiment on digits, and on real images where they are."""

import dataclasses

import numpy as np
import pytest

import widetail as wt
from widetail.experiments import Results, sparse, unseen
from widetail.experiments.images import shifted_tests, training_images
from widetail.priors import LogNormal

SMALL = sparse.SparseConfig(
    images=("digits",),
    seeds=1,
    rows=600,
    test_rows=200,
    inducing=30,
    depth=1,
    corruptions=(),
    trainings=("left_out",),
    other_priors=(LogNormal(0.0, 2.0),),
)


def rows_of(config):
    return [{**task.key, **row} for task in sparse.tasks(config) for row in task.run().rows]


@pytest.mark.slow
def test_classes_left_out_and_the_report():
    rows = rows_of(SMALL)
    assert [row["model"] for row in rows] == [sparse.PLAIN, sparse.MIXTURE, str(LogNormal(0.0, 2.0)), sparse.DOUBT]
    for row in rows:
        assert 0.3 < row["accuracy"] < 0.75  # three of ten classes cannot be right
        assert 1.0 < row["nll"] < 10.0
        assert row["auroc"] > 0.6
    found = sparse.EXPERIMENT.findings(Results(SMALL, "quick", rows, lambda *key: {}))
    assert "SVTP minus SVGP" in found.sentences[1]
    assert found.sections[-1].title == "Doubt and other priors"
    # the mixture starts from the plain model: it is that of a fit of its own
    x, y = training_images(SMALL, "digits", "left_out", 0)
    alone = wt.SparseMixtureClassifier(
        sparse.network(1), SMALL.prior, SMALL.inducing, random_state=0, doubt=False,
        options=wt.sparse.TrainingOptions(tolerance=1e-7),
    ).fit(x, y, classes=range(10))  # fmt: skip
    mixture = next(row for row in rows if row["model"] == sparse.MIXTURE)
    assert 1 / alone.model_.q.law.mean_precision == pytest.approx(mixture["scale"], rel=0.1)


# large files of what the others have too: grey and colours, letters for classes, labels from one on
@pytest.mark.parametrize(
    ("images", "classes", "corruptions"),
    [
        ("mnist", 10, 1),
        ("cifar10", 10, 2),
        pytest.param("emnist_letters", 26, 0, marks=pytest.mark.slow),
        pytest.param("svhn", 10, 0, marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("data_folder")
def test_images_of_every_kind(images, classes, corruptions):
    """Labels are numbers of classes whatever they were, and a part of the test images has all classes."""
    some = dataclasses.replace(
        SMALL, rows=300, test_rows=400, corruptions=("spatter",), colour_corruptions=("fog", "snow")
    )
    assert set(training_images(some, images, "clean", 0)[1]) <= set(range(classes))
    clean, *others = shifted_tests(some, images, "clean", 0)
    assert len(others) == corruptions
    assert set(clean.labels) == set(range(classes))
    assert clean.is_new is None
    assert all(np.mean(other.pixels != clean.pixels) > 0.1 for other in others)
    kept = training_images(some, images, "left_out", 0)[1]
    (tests,) = shifted_tests(some, images, "left_out", 0)
    assert set(tests.labels[tests.is_new]) == set(range(classes)) - set(kept)


@pytest.mark.slow
def test_mnist(data_folder):
    """A few thousand images: a sanity check of the whole path, not a record; about 0.90 +- 0.01 of 1000 images."""
    config = dataclasses.replace(
        SMALL, images=("mnist",), rows=4000, test_rows=1000, inducing=150, depth=2, trainings=("clean",)
    )
    for row in rows_of(config):
        assert row["accuracy"] > 0.87
        assert np.isfinite(row["nll"])
        assert row["nll"] < 0.35


@pytest.mark.slow
def test_classes_never_seen():
    small = unseen.UnseenConfig(
        images=("digits",), seeds=1, rows=1500, test_rows=300, inducing=56, depth=1, foreign=(), epochs=30
    )
    rows = [{**task.key, **row} for task in unseen.tasks(small) for row in task.run().rows]
    by_fit = {row["fit"]: row for row in rows if row["law"] == unseen.OWN}
    plain, doubt = by_fit[sparse.PLAIN], by_fit[sparse.DOUBT]
    assert len(by_fit) == 6
    assert doubt["nll"] < plain["nll"] - 0.1
    assert doubt["nll_seen"] < plain["nll_seen"] + 0.05
    assert by_fit[unseen.CODED_HELD]["scale"] == pytest.approx(
        by_fit[unseen.CODED]["b"] / (by_fit[unseen.CODED]["a"] - 1), rel=1e-4
    )
    for fit in (sparse.PLAIN, unseen.SHARED, unseen.CODED_PLAIN, unseen.CODED):
        by_law = {row["law"]: row for row in rows if row["fit"] == fit}
        tails = [by_law[law]["nll_unseen"] for law in ("t, 4 degrees", "t, 10 degrees", "t, 30 degrees", "normal")]
        assert np.all(np.diff(tails) > 0)  # the heavier, the less is ruled out
        assert by_law[unseen.DOUBLED]["nll_unseen"] < by_law["normal"]["nll_unseen"]
    found = unseen.EXPERIMENT.findings(Results(small, "quick", rows, lambda *key: {}))
    assert "with doubt" in found.sentences[0]
