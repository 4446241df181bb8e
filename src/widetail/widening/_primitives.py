"""The primitives of JAX that are understood, by what becomes of them; the code and its documentation read this."""

ELEMENTWISE = {
    "abs", "add", "add_any", "and", "atan2", "cbrt", "ceil", "clamp", "convert_element_type", "copy", "copy_p", "cos",
    "cosh", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow",
    "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "not", "or",
    "pow", "rem", "round", "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient", "sub", "tan",
    "tanh", "acos", "acosh", "asin", "asinh", "atan", "atanh", "xor",
}  # fmt: skip

STRUCTURAL = {
    "broadcast_in_dim", "concatenate", "dynamic_slice", "expand_dims", "gather", "pad", "reshape", "rev", "slice",
    "split", "squeeze", "stack", "transpose", "unstack", "tile",
}  # fmt: skip

CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}

LOOPS = {"scan", "cond", "while"}
DATA_DEPENDENT_LOOP = (
    "its length depends on the data; a loop whose length is a number (jax.lax.scan, fori_loop with fixed bounds, "
    "while_loop over a counter) is unrolled"
)

MAXIMA = {"reduce_max", "reduce_window_max"}

SUMS = {"reduce_sum", "dot_general", "conv_general_dilated", "reduce_window_sum", "cumsum", "scatter-add"}

# What is refused whatever its arguments are, and why.
REFUSED = {
    "sort": "sorting across the width or across positions is not a function of entries",
    "top_k": "a choice of the largest entries is not a function of entries",
    "argmax": "the place of a maximum jumps; it is no function that has a limit",
    "argmin": "the place of a minimum jumps; it is no function that has a limit",
    "reduce_min": "write the maximum of what is negated",
    "reduce_prod": "a product across the width vanishes or grows",
    "cumprod": "as reduce_prod",
    "cummax": "a maximum of many dependent variables at every position",
    "logsumexp": "a nonlinearity across the width",
    "fft": "a Fourier transform across the width mixes its entries",
    "cholesky": "a factorisation across the width is not a function of entries",
    "eigh": "a factorisation across the width is not a function of entries",
    "scatter": "writing into a part of the width",
    "random_bits": "noise that is drawn in the model; switch it off (inference mode)",
}


def refused() -> dict[str, str]:
    """Why primitives are refused, by name; what is neither here nor understood is refused by its name alone."""
    return dict(REFUSED)


def understood() -> dict[str, list[str]]:
    """What becomes of which primitives, in words."""
    return {
        "functions of entries, fused into one nonlinearity": sorted(ELEMENTWISE),
        "rearrangements of positions (and of whole parts of the width)": sorted(STRUCTURAL),
        "products with random matrices, sums over positions, means over the width": sorted(SUMS),
        "maxima of scalars, as in softmax, and of up to 16 positions; not across the width": sorted(MAXIMA),
        "calls, taken apart": sorted(CALLS),
        "loops and branches that numbers decide on, unrolled": sorted(LOOPS),
    }
