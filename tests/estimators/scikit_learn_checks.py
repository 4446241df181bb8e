"""scikit-learn's own checks of estimators, as parameters of a test."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator


def checks_of(models, quick=None, expected_failures=None):
    """Estimators and checks, a list, as pytest wants it: scikit-learn's own decorator gives a generator before 1.9.

    Each check compiles for shapes of its own, so where that takes long `quick` are those that find most.

    Args:
        models: estimators.
        quick: names of checks; the others are slow. `None`: all are quick.
        expected_failures: reasons by name, of checks that cannot hold.
    """
    parameters = []
    for model in models:
        for estimator, check in estimator_checks_generator(
            model, mark="skip", expected_failed_checks=expected_failures
        ):
            name = getattr(check, "func", check).__name__
            marks = [] if quick is None or name in quick else [pytest.mark.slow]
            parameters.append(pytest.param(estimator, check, marks=marks, id=f"{type(model).__name__}-{name}"))
    return parameters
