"""Model files and checkpoints with flipped bits, with hostile descriptions, and with paths in them."""

import json
import random
import sys
from typing import Any

import jax
import numpy as np
import pytest

import widetail as wt
from tests.estimators.saved_models import FOLDERS, NEWEST, X, Y, kept
from tests.files.edited import MODEL, fields, parts, with_header
from widetail import files, sparse
from widetail.files.checkpoints import CHECKPOINT, read_checkpoint, write_checkpoint

HOSTILE = [
    None,
    True,
    -1,
    0,
    10**18,
    10**9,
    10**5,
    1e300,
    -1e-300,
    "x",
    "../../etc/passwd",
    [],
    {},
    [[]],
    {"float": "inf"},
]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """Bytes of one small file of every kind, and what reads it."""
    folder = tmp_path_factory.mktemp("kinds")
    found: dict[str, Any] = {name: (of_kept(name), wt.load) for name in kept(NEWEST)}
    model = sparse.fit(wt.nn.mlp(1, "erf"), wt.InverseGamma(2.0, 2.0), sparse.StudentT(4.0, 0.1), X, Y, inducing=6)
    model.save(folder / "sparse")
    found["sparse"] = (folder / "sparse").read_bytes(), sparse.load
    state = {"a": np.arange(5.0), "b": np.arange(3, dtype=np.int32)}
    write_checkpoint(folder / "checkpoint", "run", state, {"epoch": 3, "losses": [1.0, float("nan")]})
    found["checkpoint"] = (folder / "checkpoint").read_bytes(), lambda path: read_checkpoint(path, "run", state)
    return found


def of_kept(name):
    return (FOLDERS[NEWEST] / f"{name}.widetail").read_bytes()


def _flip_and_read(kinds, path, count):
    draw = random.Random(0)
    for data, read in kinds.values():
        for place in draw.sample(range(8 * len(data)), count):
            flipped = bytearray(data)
            flipped[place // 8] ^= 1 << place % 8
            path.write_bytes(flipped)
            with pytest.raises(ValueError, match="flipped"):
                read(path)


def test_no_flipped_bit_goes_unnoticed(kinds, tmp_path):
    _flip_and_read(kinds, tmp_path / "flipped", 40)


@pytest.mark.slow
def test_none_of_thousands_goes_unnoticed(kinds, tmp_path):
    _flip_and_read(kinds, tmp_path / "flipped", 2000)


def _places(config, path=()):
    """Ways to every value of a description."""
    inner = config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _at(config, path):
    for key in path:
        config = config[key]
    return config


# Loading these compiles networks of many layers, another one for every edit.
LARGE = ("activations", "positions", "kernels")


def _edit_and_read(kinds, path, count):
    """A value replaced, or a name removed: the file is refused by a ValueError that names it, or loads all the same."""
    draw = random.Random(1)
    refused = 0
    for name, (data, read) in kinds.items():
        note = {"sparse": "widetail_sparse", "checkpoint": CHECKPOINT}.get(name, MODEL)
        places = list(_places(json.loads(parts(data)[0]["__metadata__"][note])))
        for _ in range(count):
            *above, last = draw.choice(places)
            value = draw.choice(HOSTILE)

            def change(described, above=above, last=last, value=value):
                inside = _at(described, above)
                if value == {} and isinstance(inside, dict):
                    del inside[last]
                else:
                    inside[last] = value

            path.write_bytes(with_header(data, change, note))
            try:
                read(path)
            except ValueError as error:
                assert "hostile" in str(error), (name, above, last, value)  # noqa: PT017  (what is right may load)
                refused += 1
            if name in LARGE:
                jax.clear_caches()  # a hundred megabytes of compiled functions for every edit that loads
    return refused


def test_hostile_descriptions(kinds, tmp_path):
    assert _edit_and_read({name: kinds[name] for name in kinds if name not in LARGE}, tmp_path / "hostile", 5) > 20


@pytest.mark.slow
def test_many_hostile_descriptions(kinds, tmp_path):
    few = {name: kinds[name] for name in LARGE}
    others = {name: kinds[name] for name in kinds if name not in LARGE}
    assert _edit_and_read(few, tmp_path / "hostile", 15) + _edit_and_read(others, tmp_path / "hostile", 200) > 1000


def test_descriptions_that_would_take_forever(kinds, tmp_path):
    path = tmp_path / "hostile"

    def nested(described):
        return json.dumps(described)[:-1] + ', "deep": ' + "[" * 100_000 + "]" * 100_000 + "}"

    def deep_program(described):
        settings = fields(described)["learned"]["process_"]["fields"]["kernel"]["fields"]["settings"]["dict"]
        settings["depth"] = 10**6

    def twice(described):
        return json.dumps(described)[:-1] + ', "version": 2}'

    def not_a_number(described):
        return json.dumps(described).replace('"version": 2', '"version": NaN')

    def endless_text(described):
        return '"' + '\\"' * 200_000

    for change in (nested, deep_program, twice, not_a_number, endless_text):
        path.write_bytes(with_header(kinds["program"][0], change))
        with pytest.raises(ValueError, match="hostile"):
            wt.load(path)

    def negative_law(described):
        fields(described)["learned"]["law"]["fields"]["a"] = -1.0

    path.write_bytes(with_header(kinds["SparseMixtureRegressor"][0], negative_law))
    with pytest.raises(ValueError, match="a must be a positive number"):
        wt.load(path)


def test_a_checksum_cannot_be_left_out(kinds, tmp_path):
    header, arrays = parts(kinds["ScaleMixtureRegressor"][0])
    del header["__metadata__"]["sha256"]
    text = json.dumps(header).encode()
    (tmp_path / "bare").write_bytes(len(text).to_bytes(8, "little") + text + arrays)
    with pytest.raises(ValueError, match=r"bare.*no checksum"):
        wt.load(tmp_path / "bare")


opened: list[str] = []
is_watching = False


def _watch(event, arguments):
    if is_watching and event == "open" and not isinstance(arguments[0], int):
        mode = arguments[1] if isinstance(arguments[1], str) else ""
        if set(mode) & set("wax+") or (arguments[2] or 0) & 3:
            opened.append(str(arguments[0]))


def test_a_file_cannot_name_a_path(kinds, tmp_path, monkeypatch):
    """Neither of this format nor of the one before: nothing is written when such a model learns and predicts."""
    monkeypatch.chdir(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    names = {"cache": str(victim), "checkpoint": str(victim)}
    files = {
        "new": with_header(
            kinds["SparseMixtureRegressor"][0], lambda described: fields(described)["parameters"].update(names)
        ),
        "old": with_header(
            (FOLDERS[1] / "SparseMixtureRegressor.widetail").read_bytes(),
            lambda described: described["parameters"].update(names),
            note="widetail",
        ),
    }
    sys.addaudithook(_watch)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        monkeypatch.setattr(sys.modules[__name__], "is_watching", True)
        model = wt.load(tmp_path / name)
        model.partial_fit(X[:5], Y[:5]).predict(X)
        monkeypatch.setattr(sys.modules[__name__], "is_watching", False)
        assert model.cache is None
        assert model.checkpoint is None
    assert not [path for path in opened if str(tmp_path) in path]
    assert victim.read_text() == "precious"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["new", "old", "victim"]


def test_no_registered_class_keeps_a_path():
    for name, kind in files.registered().items():
        if hasattr(kind, "get_params"):
            kept = set(kind().get_params()) - set(files.fields_not_saved(kind))
        else:
            kept = set(getattr(kind, "__dataclass_fields__", {})) - set(files.fields_not_saved(kind))
        assert not [
            field for field in kept if any(word in field for word in ("cache", "checkpoint", "path", "file"))
        ], name
