"""What the theory experiments run, and the points of the sine that networks are trained on."""

import dataclasses

import numpy as np

from widetail import nn
from widetail.nn import Layer
from widetail.priors import BurrXII, InverseGamma, ScalePrior

LEVEL = 0.01  # for all laws of a run together


@dataclasses.dataclass(frozen=True)
class TheoryConfig:
    """What to run.

    Weights have variance 8 / fan-in and biases 0.0025, as the paper's text has it.

    Attributes:
        width: of the networks whose law is tested.
        networks: how many of them.
        depth: hidden layers of the erf network; the readout is one layer more.
        weight_var, bias_var: variances of all hidden layers.
        priors: priors of the readout variance; the wrong laws are tried against the first, which needs a variance.
        all_layers_priors: priors of the experiment in which all layers are trained.
        all_layers_networks, steps: of that experiment.
        all_layers_bias_var: of that experiment. With the biases above the tangent kernel is so ill-conditioned that
            plain gradient descent needs thousands of steps, and momentum leaves the linear regime of such networks.
        residual_prior: of residual networks with all layers trained, for which there is no theorem.
        deep, deep_networks, deep_steps: hidden layers, networks and steps of networks with the biases above, trained
            for a part of the way.
        widths: widths of the convergence experiment.
        normals: random numbers spent on each of them.
        most_bodies: most bodies of one width.
        literal_widths: widths at which the distance is also measured with networks, as far as they can tell.
        seed: of everything.
    """

    width: int = 512
    networks: int = 2000
    depth: int = 2
    weight_var: float = 8.0
    bias_var: float = 0.0025
    priors: tuple[ScalePrior, ...] = (
        InverseGamma(2.0, 2.0),
        InverseGamma(1.0, 1.0),
        InverseGamma(0.5, 0.5),
        InverseGamma(4.0, 4.0),
        BurrXII(2.0, 1.0),
    )
    all_layers_priors: tuple[ScalePrior, ...] = (
        InverseGamma(1.0, 1.0),
        InverseGamma(2.0, 2.0),
        InverseGamma(0.5, 0.5),
        InverseGamma(4.0, 4.0),
        BurrXII(2.0, 1.0),
    )
    all_layers_networks: int = 2000
    all_layers_bias_var: float = 1.0
    steps: int = 60
    residual_prior: ScalePrior = InverseGamma(4.0, 4.0)  # noqa: RUF009
    deep: int = 3
    deep_networks: int = 500
    deep_steps: int = 300
    widths: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024)
    normals: float = 3e8
    most_bodies: int = 40_000
    literal_widths: tuple[int, ...] = (16, 32, 64, 128, 256)
    seed: int = 0

    @classmethod
    def quick(cls) -> "TheoryConfig":
        """Smaller in every direction: below a minute."""
        return cls(
            width=256,
            networks=800,
            priors=(InverseGamma(2.0, 2.0), BurrXII(2.0, 1.0)),
            all_layers_priors=(InverseGamma(1.0, 1.0),),
            all_layers_networks=200,
            deep_networks=100,
            deep_steps=60,
            widths=(16, 32, 64, 128),
            normals=8e6,
            most_bodies=5000,
            literal_widths=(16,),
        )

    @property
    def net(self) -> Layer:
        """The erf network."""
        return nn.mlp(self.depth, "erf", weight_var=self.weight_var, bias_var=self.bias_var)

    @property
    def residual_net(self) -> Layer:
        """The residual network."""
        return nn.resnet(1, "erf", weight_var=self.weight_var, bias_var=self.bias_var)


# Five points of the sine to train on, and five inputs to look at, between and beside them.
X = np.linspace(-2.0, 2.0, 5)[:, None]
Y = np.sin(X[:, 0])
X_NEW = np.array([-2.6, -1.5, -0.4, 0.6, 1.4])[:, None]
