"""Models written long ago, by another Python on another machine, still load and predict what they did."""

import json
import struct

import numpy as np
import pytest

import widetail as wt
from tests.estimators.saved_models import FOLDERS, NEWEST, answers, estimators, kept
from widetail.files import registered

LARGE = ("activations", "positions", "kernels")  # seconds each, for compiling many layers
CASES = [(version, name) for version in FOLDERS for name in sorted(kept(version))]
TOLERANCES = {
    # ensembles compute in float32, whose last digits depend on the machine
    **dict.fromkeys(((version, name) for version, name in CASES if name.startswith("Wide")), 1e-4),
    # probabilities were means over 2048 points when the model was kept, and are integrals now
    (1, "SparseMixtureClassifier"): 3e-4,
    # with noise outside of the scale the median was predicted when the model was kept, and the mean is now
    (2, "kernels"): 1e-3,
}


@pytest.mark.parametrize(
    ("version", "name"),
    [pytest.param(*case, marks=pytest.mark.slow if case[1] in LARGE else ()) for case in CASES],
)
def test_a_kept_model_loads_and_predicts_as_it_did(version, name, as_users_call):
    path = FOLDERS[version] / f"{name}.widetail"
    then = json.loads(path.with_suffix(".json").read_text())
    now = answers(wt.load(path), kept(version)[name].new)
    assert now.get("labels") == then.get("labels")
    tolerance = TOLERANCES.get((version, name), 1e-7)
    np.testing.assert_allclose(now["numbers"], then["numbers"], rtol=tolerance, atol=tolerance)


def test_every_layer_kernel_and_prior_is_in_a_kept_model():
    """The format of what is not could change, and files that people have would not load."""
    texts = "".join(path.read_bytes().decode(errors="ignore") for path in FOLDERS[NEWEST].glob("*.widetail"))
    of_functions = {"nn.Elementwise"}  # cannot be saved: it holds a function
    # parts of processes and of models that no estimator has
    elsewhere = {"sparse.StudentT", "sparse.SparseModel"}
    missing = [name for name in registered() if f'"{name}\\"' not in texts and f'{name}\\"' not in texts]
    assert set(missing) <= of_functions | elsewhere, missing


@pytest.mark.parametrize("name", sorted(estimators()))
def test_a_file_is_json_and_little_endian_numbers_and_nothing_else(name):
    """Read without any library: the format is the same on every machine."""
    data = (FOLDERS[1] / f"{name}.widetail").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    facts = json.loads(header.pop("__metadata__")["widetail"])
    assert facts["kind"] == name
    begin, end = header["x_factor"]["data_offsets"]
    assert header["x_factor"]["dtype"] == "F64"
    factor = struct.unpack(f"<{(end - begin) // 8}d", data[8 + size + begin : 8 + size + end])
    np.testing.assert_array_equal(factor, np.ravel(wt.load(FOLDERS[1] / f"{name}.widetail").x_scaling_.factor))
