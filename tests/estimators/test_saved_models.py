"""Models written long ago, by another Python on another machine, still load and predict what they did."""

import json
import struct

import numpy as np
import pytest

import widetail as wt
from tests.estimators.saved_models import FOLDER, answers, models

NAMES = sorted(models())
TOLERANCES = {
    # ensembles compute in float32, whose last digits depend on the machine
    **dict.fromkeys((name for name in NAMES if name.startswith("Wide")), 1e-4),
    # probabilities were means over 2048 points when the model was kept, and are integrals now
    "SparseMixtureClassifier": 3e-4,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_model_loads_and_predicts_as_it_did(name, as_users_call):
    then = json.loads((FOLDER / f"{name}.json").read_text())
    now = answers(wt.load(FOLDER / f"{name}.widetail"))
    assert now.get("labels") == then.get("labels")
    tolerance = TOLERANCES.get(name, 1e-7)
    np.testing.assert_allclose(now["numbers"], then["numbers"], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_json_and_little_endian_numbers_and_nothing_else(name):
    """Read without any library: the format is the same on every machine."""
    data = (FOLDER / f"{name}.widetail").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    facts = json.loads(header.pop("__metadata__")["widetail"])
    assert facts["kind"] == name
    begin, end = header["x_factor"]["data_offsets"]
    assert header["x_factor"]["dtype"] == "F64"
    factor = struct.unpack(f"<{(end - begin) // 8}d", data[8 + size + begin : 8 + size + end])
    np.testing.assert_array_equal(factor, np.ravel(wt.load(FOLDER / f"{name}.widetail").x_scaling_.factor))
