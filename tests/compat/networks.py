"""Networks in the words of neural-tangents, over all layers, and the inputs that they are evaluated on.

`python tests/compat/networks.py` in an environment with neural-tangents 0.6.5 prints what it finds, for
`neural_tangents.json`; it imports neither this library nor its tests.
"""

import json
import sys

import numpy as np

ENDS = {
    "vectors": "stax.Dense(1)",
    "images": "stax.Flatten(), stax.Dense(1)",
    "sequences": "stax.GlobalAvgPool(), stax.Dense(1)",
}
SHAPES = {"vectors": (5,), "images": (4, 4, 2), "sequences": (6, 2)}

ACTIVATIONS = (
    "Relu()", "Abs()", "LeakyRelu(0.2)", "ABRelu(0.3, 1.4)", "Erf()", "Erf(0.7, 1.3, 0.4)", "Sigmoid_like()", "Gelu()",
    "Sin()", "Sin(1.2, 0.7, 0.3)", "Cos(0.9, 1.1, 0.2)", "Rbf(0.7)", "Exp(0.8, 0.6)", "Gaussian(1.1, -0.6)", "Gabor()",
    "ExpNormalized(0.9, -0.5)", "Hermite(3)", "Monomial(2)", "Monomial(3)", "RectifiedMonomial(2)",
    "Polynomial([0.3, -0.2, 0.5])", "Sign()", "ElementwiseNumerical(tanh, deg=60)",
)  # fmt: skip

BODIES = {
    "vectors": (
        *(f"stax.Dense(9, 1.2, 0.3), stax.{name}" for name in ACTIVATIONS),
        "stax.Dense(9, 1.2, 0.3, parameterization='standard'), stax.Relu(), stax.Dense(9, parameterization='standard')",
        "stax.Dense(9), stax.LayerNorm(), stax.Relu()",
        "stax.Dense(9), stax.Relu(), stax.Dropout(0.8)",
        "stax.Dense(9), stax.FanOut(2), stax.parallel(stax.Identity(), stax.serial(stax.Relu(), stax.Dense(9))), "
        "stax.FanInSum()",
        "stax.FanOut(2), stax.parallel(stax.Dense(9), stax.Dense(9)), stax.FanInProd()",
        "stax.FanOut(2), stax.parallel(stax.Dense(9), stax.Dense(6)), stax.FanInConcat(-1)",
        "stax.Dense(9), stax.repeat(stax.serial(stax.Relu(), stax.Dense(9, 1.1)), 3), stax.Relu()",
    ),
    "images": (
        "stax.Conv(9, (3, 2), padding='SAME', b_std=0.2), stax.Relu()",
        "stax.Conv(9, (3, 3), (2, 1), padding='CIRCULAR'), stax.Erf()",
        "stax.Conv(9, (2, 2), parameterization='standard', b_std=0.3), stax.Relu(), stax.Conv(9, (2, 1))",
        "stax.ConvLocal(9, (3, 2), padding='SAME', b_std=0.2), stax.Relu(), stax.AvgPool((2, 2), (2, 2))",
        "stax.ConvTranspose(9, (3, 2), (2, 1), padding='SAME', b_std=0.2), stax.Relu()",
        "stax.Conv(9, (2, 2), padding='SAME'), stax.AvgPool((3, 2), (1, 2), 'SAME', True), stax.Relu()",
        "stax.Conv(9, (2, 2), padding='SAME'), stax.SumPool((2, 2)), stax.Relu()",
        "stax.Conv(9, (2, 2), padding='SAME'), stax.LayerNorm(axis=(1, 3)), stax.Relu()",
        "stax.Conv(9, (2, 2), padding='SAME'), stax.Index(stax.Slice[:, 1:, 0]), stax.Relu()",
        "stax.Conv(9, (2, 2), padding='SAME'), stax.ImageResize((-1, 3, 5, -1), 'linear'), stax.Relu()",
        "stax.Conv(9, (2, 2), padding='SAME'), stax.DotGeneral(rhs=table, dimension_numbers=(((1,), (0,)), ((), ())), "
        "channel_axis=3)",
        "stax.Conv(9, (1, 1)), stax.GlobalSelfAttention(9, 9, 9, 3, W_key_std=0.8, b_std=0.2, "
        "pos_emb_type='CONCAT', pos_emb_decay_fn=decay, val_pos_emb=True), stax.Relu()",
    ),
    "sequences": (
        "stax.Conv(9, (3,), padding='SAME'), stax.Relu()",
        "stax.Conv(9, (1,)), stax.GlobalSelfAttention(9, 9, 9, 3, W_value_std=1.2), stax.Relu()",
        "stax.Conv(9, (1,)), stax.GlobalSelfAttention(9, 9, 9, 3, linear_scaling=False, "
        "attention_mechanism='IDENTITY', pos_emb_type='SUM', W_pos_emb_std=0.4), stax.Relu()",
        "stax.Conv(9, (1,)), stax.GlobalSelfAttention(9, 9, 9, 3, attention_mechanism='ABS'), stax.Relu()",
        "stax.Conv(9, (3,), padding='SAME'), stax.Relu(), stax.GlobalSumPool(), stax.Dense(9), stax.Flatten()",
    ),
}  # fmt: skip

# the same with some positions masked (mask_constant=100)
MASKED = (
    "stax.Conv(9, (3,), padding='SAME', b_std=0.2), stax.Relu()",
    "stax.Conv(9, (1,)), stax.GlobalSelfAttention(9, 9, 9, 3, b_std=0.1), stax.Relu()",
    "stax.Dense(9, b_std=0.3), stax.LayerNorm(axis=(1, 2)), stax.Relu()",
    "stax.Conv(9, (3,), padding='SAME'), stax.Erf(), stax.AvgPool((2,), (2,), 'SAME')",
)


def cases():
    """Name, expression, kind of input, whether it has masks."""
    for kind, bodies in BODIES.items():
        for body in bodies:
            end = "stax.Dense(1)" if "GlobalSumPool" in body else ENDS[kind]
            yield f"stax.serial({body}, {end})", kind, False
    for body in MASKED:
        yield f"stax.serial({body}, {ENDS['sequences']})", "sequences", True


def inputs(kind, is_masked):
    """Two sets: the second has a row of the first, its opposite, zeros, and numbers near and far."""
    generator = np.random.default_rng(7)
    x = generator.normal(size=(4, *SHAPES[kind]))
    new = np.concatenate([x[:1], -x[1:2], 0 * x[:1], 1e-3 * x[2:3], 30 * x[3:], x[:1] + 1e-5])
    if is_masked:
        x, new = np.array(x), generator.normal(size=(3, *SHAPES[kind]))
        x[0, 4:], x[2, 2:], new[1, 3:] = 100.0, 100.0, 100.0
    return x, new


def both(k):
    return k.nngp, k.ntk


def evaluate(expression, kind, is_masked, stax, jnp, compiled=lambda function: function):
    """Both kernels of the inputs, with themselves and across; `compiled` is `jax.jit`, or nothing."""
    table = jnp.asarray(np.random.default_rng(3).normal(size=(4, 3)))
    names = {"stax": stax, "tanh": jnp.tanh, "decay": lambda d: jnp.exp(-0.3 * d), "table": table}
    kernel_fn = eval(expression, names)[2]
    options = {"mask_constant": 100.0} if is_masked else {}
    found = {}
    x, new = inputs(kind, is_masked)
    for name, other in (("alone", None), ("across", new)):
        arrays = [jnp.asarray(rows) for rows in (x, other) if rows is not None]
        nngp, ntk = compiled(lambda *rows: both(kernel_fn(*rows, get=("nngp", "ntk"), **options)))(*arrays)
        found[name] = {"nngp": np.asarray(nngp).tolist(), "ntk": np.asarray(ntk).tolist()}
    return found


if __name__ == "__main__":
    import jax
    import jax.numpy as jnp
    import neural_tangents

    jax.config.update("jax_enable_x64", True)
    results = {}
    for expression, kind, is_masked in cases():
        try:
            results[expression + (" masked" if is_masked else "")] = evaluate(
                expression, kind, is_masked, neural_tangents.stax, jnp
            )
        except Exception as error:  # a layer that the original refuses is told, and left out
            print(expression, type(error).__name__, str(error)[:200], file=sys.stderr)
    json.dump(results, sys.stdout)
