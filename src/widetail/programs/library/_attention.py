"""Self-attention and transformers."""

from typing import Any

import jax

from widetail.programs._program import program
from widetail.programs.library._feedforward import normalise


def attend(p: Any, h: list, *, heads: int, query_var: float, value_var: float, output_var: float) -> list:
    """Self-attention of every position to all positions.

    Queries and keys share their weights and logits are means over the width, so that they have a limit:
    softmax_q(q_p . q_q / width) (Hron et al., 2020; Yang, 2019). In that limit all heads attend alike.
    """
    outputs = []
    for _ in range(heads):
        Q, V, R = p.matrix(query_var), p.matrix(value_var), p.matrix(output_var / heads)
        queries, values = [Q @ vector for vector in h], [V @ vector for vector in h]
        mixed = []
        for query in queries:
            weights = p.softmax([p.average(query * key) for key in queries])
            mixed.append(R @ p.weighted_sum(weights, values))
        outputs.append(mixed)
    return [p.sum(list(per_head)) for per_head in zip(*outputs, strict=True)]


@program
def self_attention(
    p: Any,
    xs: Any,
    *,
    heads: int = 1,
    fn: Any = jax.nn.relu,
    weight_var: float = 2.0,
    bias_var: float = 0.1,
    query_var: float = 1.0,
    value_var: float = 1.0,
    output_var: float = 1.0,
) -> Any:
    """A layer of features, self-attention with any number of heads (Vaswani et al., 2017), the mean over positions."""
    U, b = p.input_matrix(weight_var), p.bias(bias_var)
    h = [p.nonlin(fn, U @ x + b) for x in xs]
    return p.mean(attend(p, h, heads=heads, query_var=query_var, value_var=value_var, output_var=output_var))


@program
def transformer(
    p: Any,
    xs: Any,
    *,
    blocks: int = 1,
    heads: int = 2,
    fn: Any = jax.nn.relu,
    weight_var: float = 2.0,
    bias_var: float = 0.1,
    query_var: float = 1.0,
) -> Any:
    """A small transformer (Vaswani et al., 2017), normalised before every branch (Xiong et al., 2020).

    Per block: g + attention(norm(g)), then g + W fn(V norm(g) + b). The mean over positions is read out. Positions are
    not encoded: add that to the features.
    """
    U, b = p.input_matrix(weight_var), p.bias(bias_var)
    g = [U @ x + b for x in xs]
    for _ in range(blocks):
        change = attend(
            p, [normalise(p, v) for v in g], heads=heads, query_var=query_var, value_var=1.0, output_var=1.0
        )
        g = [v + dv for v, dv in zip(g, change, strict=True)]
        V, c, W = p.matrix(weight_var), p.bias(bias_var), p.matrix(weight_var)
        g = [v + W @ p.nonlin(fn, V @ normalise(p, v) + c) for v in g]
    return p.mean([normalise(p, v) for v in g])
