"""The names and signatures of neural-tangents 0.6.5 on top of this library: change one import.

    from widetail.compat import neural_tangents as nt
    from widetail.compat.neural_tangents import stax

As there, a layer is a triple (init_fn, apply_fn, kernel_fn), widths matter for finite networks only, standard
deviations are given, and `kernel_fn(x1, x2, get)` keeps the precision of JAX's settings. New programs had better use
[`widetail.nn`](../tutorials/neural_tangents.md), whose kernels are computed in tiles on all cores.
"""

from typing import Any

from widetail.compat.neural_tangents import predict as predict
from widetail.compat.neural_tangents import stax as stax
from widetail.compat.neural_tangents._batching import batch as batch
from widetail.compat.neural_tangents._empirical import NtkImplementation as NtkImplementation
from widetail.compat.neural_tangents._empirical import empirical_direct_ntk_fn as empirical_direct_ntk_fn
from widetail.compat.neural_tangents._empirical import empirical_implicit_ntk_fn as empirical_implicit_ntk_fn
from widetail.compat.neural_tangents._empirical import empirical_kernel_fn as empirical_kernel_fn
from widetail.compat.neural_tangents._empirical import empirical_nngp_fn as empirical_nngp_fn
from widetail.compat.neural_tangents._empirical import empirical_ntk_fn as empirical_ntk_fn
from widetail.compat.neural_tangents._empirical import empirical_ntk_vp_fn as empirical_ntk_vp_fn
from widetail.compat.neural_tangents._empirical import linearize as linearize
from widetail.compat.neural_tangents._empirical import taylor_expand as taylor_expand
from widetail.compat.neural_tangents._kernel import Kernel as Kernel
from widetail.compat.neural_tangents._monte_carlo import monte_carlo_kernel_fn as monte_carlo_kernel_fn

__version__ = "0.6.5"  # the interface, for scripts that ask


def __getattr__(name: str) -> Any:
    if name == "experimental":
        raise AttributeError(
            "nt.experimental (tangent kernels of TensorFlow functions) is not supported; widetail.empirical takes "
            "functions of JAX, Equinox and Flax models."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
