"""scikit-learn's own checks of estimators, as parameters of a test."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator


def checks_of(models, quick, expected_failures=None):
    """Estimators and checks; of some fifty checks, those that are not named in `quick` are slow.

    Each check compiles for shapes of its own, so `quick` are those that find most.

    Args:
        models: estimators.
        quick: names of checks.
        expected_failures: reasons by name, of checks that cannot hold.
    """
    for model in models:
        for estimator, check in estimator_checks_generator(
            model, mark="skip", expected_failed_checks=expected_failures
        ):
            name = getattr(check, "func", check).__name__
            marks = [] if name in quick else [pytest.mark.slow]
            yield pytest.param(estimator, check, marks=marks, id=f"{type(model).__name__}-{name}")
