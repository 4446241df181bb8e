"""What can be saved: every public kernel, layer and prior, and the same object is read back."""

import inspect
import json

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from widetail import files, kernels, nn, priors

OBJECTS = [
    kernels.RBF([0.5, 2.0]),
    kernels.Matern(2.5, 0.3),
    kernels.RationalQuadratic(1.5, 0.7),
    kernels.PowerExponential(1.5, [0.3, 2.0]),
    kernels.Linear([1.0, 0.25], 2.0),
    kernels.Anova([1.0, 3.0], 0.5, order=2, interaction_var=0.1),
    2.5 * kernels.RBF(),
    kernels.RBF() + kernels.Linear() * nn.mlp(2, "erf"),
    kernels.Sum(kernels.Product(kernels.RBF(), kernels.Matern()), kernels.Linear()),
]


@pytest.mark.parametrize("kernel", OBJECTS, ids=lambda kernel: type(kernel).__name__)
def test_kernels_go_through_json(kernel):
    again = kernels.from_config(json.loads(json.dumps(kernels.to_config(kernel))))
    assert type(again) is type(kernel)
    assert kernels.to_config(again) == kernels.to_config(kernel)
    x = np.array([[0.0, 1.0], [2.0, -1.0]])
    assert np.array_equal(again.kernel(x).nngp, kernel.kernel(x).nngp)


def test_every_public_kernel_layer_and_prior_can_be_saved():
    saved = set(files.registered().values())
    for room, base in ((kernels, kernels.Kernel), (nn, kernels.Kernel), (priors, priors.ScalePrior)):
        public = [kind for kind in vars(room).values() if isinstance(kind, type) and issubclass(kind, base)]
        forgotten = [kind.__name__ for kind in public if not inspect.isabstract(kind) and kind not in saved]
        assert len(public) > 8
        assert forgotten == [], f"{room.__name__}: @savable is missing on {forgotten}"


@pytest.mark.parametrize(
    "layer",
    [
        nn.Polynomial([0.5, 1.0]),
        nn.RectifiedMonomial(3),
        nn.Slice(slice(1, None), 0),
        nn.Resize((3, 2)),
        nn.LayerNorm("all"),
        nn.LayerNorm((0,)),
        nn.Aggregate([[0.5, 0.5, 0.0]]),
        nn.Aggregate(scipy.sparse.csr_array(np.array([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]]))),
        nn.LocalConv((2, 1), weight_var=2.0),
        nn.DotGeneral([[0.5, 1.0], [0.0, 2.0]], (1,)),
        nn.Masked(nn.Conv(3, bias_var=0.1), nn.Relu(), nn.GlobalAvgPool()),
    ],
    ids=repr,
)
def test_layers_go_through_json(layer):
    config = kernels.to_config(layer)
    again = kernels.from_config(json.loads(json.dumps(config)))
    assert repr(again) == repr(layer)
    assert kernels.to_config(again) == config


def test_every_public_kernel_is_tried_above():
    tried = {type(kernel) for kernel in OBJECTS}
    public = {kind for kind in vars(kernels).values() if isinstance(kind, type) and issubclass(kind, kernels.Kernel)}
    assert {kind for kind in public if not inspect.isabstract(kind)} - tried == {kernels.Product}  # inside of sums


def test_a_prior_of_scipy_is_read_back():
    prior = priors.ScalePrior.wrap(scipy.stats.invgamma(2.0, scale=3.0))
    again = files.from_config(json.loads(json.dumps(files.to_config(prior))))
    assert repr(again) == repr(prior)
    assert again.log_prob(0.7) == prior.log_prob(0.7)
