"""As many rows as the documentation promises, in a process of its own: it is the process that used to end."""

import subprocess
import sys
import textwrap

import pytest


def run_alone(program):
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


@pytest.mark.slow
def test_eighteen_thousand_rows_do_not_end_the_process():
    """3 GB, minutes on two cores. `scipy.linalg.cholesky` of this size dies of a segmentation fault."""
    run_alone("""
        import numpy as np
        import widetail as wt
        rng = np.random.default_rng(0)
        x = rng.uniform(size=(18_000, 2))
        y = np.sin(6 * x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=len(x))
        kernel = wt.kernels.RBF(0.3)
        posterior = wt.ScaleMixture(kernel, noise=wt.ScaledNoise(0.1)).posterior(x, y)
        assert posterior.diagnostics.jitter == 0
        some = np.array([0, 9_000, 17_999])
        product = kernel.kernel(x[some], x).nngp @ posterior.weights[:, 0] + 0.1 * posterior.weights[some, 0]
        assert np.abs(product - y[some]).max() < 1e-8, product - y[some]
        new = np.array([[0.2, 0.7], [0.6, 0.1]])
        dist = posterior(new)
        assert np.abs(dist.mean - np.sin(6 * new[:, 0]) * new[:, 1]).max() < 0.03, dist.mean
        assert np.all((dist.std > 0.09) & (dist.std < 0.11)), dist.std  # the noise
        # left out: the residual is the weight by the diagonal of the inverse, here by solves
        unit = np.zeros((len(x), 3))
        unit[some, range(3)] = 1.0
        precision = posterior.factor.solve(unit)[some, range(3)]
        left_out = posterior.left_out()
        expected = y[some] - posterior.weights[some, 0] / precision
        assert np.abs(left_out.location[some] - expected).max() < 1e-8
        assert np.std(y - left_out.location) < 0.11
    """)


@pytest.mark.slow
def test_seventeen_thousand_rows_in_jax_do_not_end_the_process():
    """5 GB. `jnp.linalg.cholesky` of this size dies as well; r^|i - j| has a factor in closed form."""
    run_alone("""
        import jax, jax.numpy as jnp, numpy as np
        from widetail.numerics import cholesky_in_jax
        jax.config.update("jax_enable_x64", True)
        i, r = jnp.arange(17_000.0), 0.7
        lower = cholesky_in_jax(r ** jnp.abs(i[:, None] - i))
        last = np.asarray(lower[-1])
        assert np.allclose(lower[:, 0], r ** np.arange(17_000.0), atol=1e-12)
        assert np.allclose(last[1:], np.sqrt(1 - r**2) * r ** np.arange(16_998.0, -1, -1), atol=1e-12)
    """)
