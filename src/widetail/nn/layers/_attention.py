"""Self-attention with infinitely many heads."""

import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from widetail.checks import as_parameter, check_variance
from widetail.files import savable
from widetail.nn._base import Leaf, draw_weight, scaled_weight
from widetail.nn._covariance import Covariance
from widetail.nn._signal import Signal
from widetail.nn.layers._linear import refuse_positional


@savable("nn.SelfAttention")
class SelfAttention(Leaf):
    r"""Every position attends to all positions, in the limit of infinitely many heads (Hron et al., 2020).

    With queries $q_p$, keys $k_p$ and values $v_p$ of head dimension $d$, the two mechanisms that have a limit in
    closed form:

    - `weights="softmax"`: $\mathrm{softmax}_q(q_p \cdot q_q / d)$, queries and keys sharing their weights. The logits
      become the numbers $\sigma_{qk} k_{pq}$, so attention matrices $A, A'$ are fixed by the inputs and
      $K' = \sigma_w^2\, A K A'^\top$.
    - `weights="linear"`: $q_p \cdot k_q / (\sqrt{d}\, T)$ over $T$ positions. The logits stay random and
      $K'_{pp'} = \sigma_w^2 \sigma_{qk}^2\, K_{pp'} \, \mathrm{mean}_{qq'} K_{qq'}^2$.

    Positions are not encoded: add that to the features.

    Args:
        weight_var: variance of the value weights times that of the output weights, $\sigma_w^2$.
        query_key_var: variance of the query weights times that of the key weights, $\sigma_{qk}^2$.
        weights: "softmax" or "linear".
    """

    weight_var: float = eqx.field(default=1.0, converter=as_parameter)
    query_key_var: float = eqx.field(default=1.0, converter=as_parameter)
    weights: Literal["softmax", "linear"] = eqx.field(static=True, default="softmax")

    def __init__(
        self,
        *positional: Any,
        weight_var: float = 1.0,
        query_key_var: float = 1.0,
        weights: Literal["softmax", "linear"] = "softmax",
    ):
        refuse_positional("nn.SelfAttention", "nn.SelfAttention(weight_var=2.0)", positional)
        self.weight_var = weight_var
        self.query_key_var = query_key_var
        self.weights = weights

    def __check_init__(self):
        check_variance("weight_var", self.weight_var, positive=True)
        check_variance("query_key_var", self.query_key_var, positive=True)
        if self.weights not in ("softmax", "linear"):
            raise ValueError(f"weights must be 'softmax' or 'linear'; got {self.weights!r}.")

    def needs_all_pairs(self, wanted: bool) -> bool:
        return True

    def signal(self, signal: Signal) -> Signal:
        if not signal.space:
            raise ValueError("nn.SelfAttention expects sequences or images, but it receives vectors")
        return signal.weighted()

    def limit_rows(self, k):
        attention = None
        if self.weights == "softmax":
            positions = math.prod(k.nngp.shape[: k.rank])
            logits = k.nngp.reshape(positions, positions, -1) * jnp.sqrt(jnp.asarray(self.query_key_var, k.nngp.dtype))
            attention = jax.nn.softmax(logits, axis=1)
        return self._limit(k, attention, attention, "n", "n"), attention

    def limit_cross(self, k, statistics1, statistics2):
        return self._limit(k, statistics1, statistics2, "n", "m")

    def _limit(self, k: Covariance, attention1, attention2, rows1: str, rows2: str) -> Covariance:
        positions = math.prod(k.nngp.shape[: k.rank])
        pairs = k.nngp.shape[2 * k.rank :]
        axes = rows1 if rows1 == rows2 else rows1 + rows2
        flat = k.map(lambda v: v.reshape(positions, positions, *pairs))
        weight_var = jnp.asarray(self.weight_var, k.nngp.dtype)
        if self.weights == "softmax":

            def attend(v):
                half = jnp.einsum(f"pa{rows1},ab{axes}->pb{axes}", attention1, v)
                return weight_var * jnp.einsum(f"qb{rows2},pb{axes}->pq{axes}", attention2, half)

            nngp = attend(flat.nngp)
            # value and output weights each contribute the covariance itself; logits hardly move
            ntk = None if flat.ntk is None else 2 * nngp + attend(flat.ntk)
        else:
            factor = weight_var * jnp.asarray(self.query_key_var, k.nngp.dtype)

            def over_positions(v):
                return jnp.mean(v, axis=(0, 1), keepdims=True)

            nngp = factor * flat.nngp * over_positions(flat.nngp**2)
            ntk = None
            if flat.ntk is not None:
                # one term for each of the four weights, one for each way down to the features
                ntk = (
                    4 * nngp
                    + factor * flat.ntk * over_positions(flat.nngp**2)
                    + 2 * factor * flat.nngp * over_positions(flat.nngp * flat.ntk)
                )
        return k.with_values(nngp.reshape(k.nngp.shape), None if ntk is None else ntk.reshape(k.nngp.shape))

    def masked_factor(self, mask, statistics):
        """Weights of positions that are there, which have to add up to 1 (softmax) or are as many as there are."""
        flat = mask.reshape(-1, mask.shape[-1])
        if self.weights == "softmax":  # the logits of the others were 0, so they weighed something
            share = jnp.einsum("pqn,qn->pn", statistics, flat).reshape(mask.shape)
        else:
            share = jnp.broadcast_to(jnp.mean(flat, axis=0), mask.shape)
        return mask / jnp.where(mask > 0, share, 1)

    # The finite layer has `heads` heads of `heads` dimensions each; both grow with the width.

    def _heads(self, width: int) -> int:
        return 1 if self.weights == "softmax" else max(1, round(math.sqrt(width)))

    def init(self, key, signal, parametrisation):
        features, width = signal.sizes
        keys = jax.random.split(key, 4)
        heads = self._heads(width)
        dimension = width if self.weights == "softmax" else heads
        into = (features, heads, dimension)
        half = jnp.sqrt(jnp.asarray(self.query_key_var, float))
        value_half = jnp.sqrt(jnp.asarray(self.weight_var, float))
        parameters = {
            "value": draw_weight(keys[0], into, value_half, features, parametrisation),
            "query": draw_weight(keys[1], into, half, features, parametrisation),
            "output": draw_weight(keys[2], (heads, dimension, width), value_half, heads * dimension, parametrisation),
        }
        if self.weights == "linear":
            parameters["key"] = draw_weight(keys[3], into, half, features, parametrisation)
        return parameters

    def apply(self, parameters, x, parametrisation, key):
        return self.apply_masked(parameters, x, jnp.ones(x.shape[:-1], x.dtype), parametrisation, key)

    def apply_masked(self, parameters, x, mask, parametrisation, key):
        space = x.shape[1:-1]
        is_there = mask.reshape(len(x), 1, 1, -1) > 0
        is_there = is_there | ~jnp.any(
            is_there, axis=-1, keepdims=True
        )  # of an empty sequence all count: weights would be 0 / 0
        h = x.reshape(x.shape[0], -1, x.shape[-1])
        half = jnp.sqrt(jnp.asarray(self.query_key_var, x.dtype))
        value_half = jnp.sqrt(jnp.asarray(self.weight_var, x.dtype))

        def project(name, var):
            weight = scaled_weight(parameters[name], var, x.shape[-1], parametrisation)
            return jnp.einsum("npc,chd->nphd", h, weight.astype(x.dtype))

        query, value = project("query", half), project("value", value_half)
        dimension = query.shape[-1]
        if self.weights == "softmax":
            logits = jnp.einsum("nphd,nqhd->nhpq", query, query) / dimension
            attention = jax.nn.softmax(logits, axis=-1, where=is_there)
        else:
            attention = jnp.einsum("nphd,nqhd->nhpq", query, project("key", half))
            count = jnp.maximum(jnp.sum(is_there, axis=-1, keepdims=True), 1).astype(x.dtype)
            attention = attention / (math.sqrt(dimension) * count)
        mixed = jnp.einsum("nhpq,nqhd->nphd", attention, value)
        output = parameters["output"]
        output = scaled_weight(output, value_half, output.shape[0] * output.shape[1], parametrisation)
        y = jnp.einsum("nphd,hdo->npo", mixed, output.astype(x.dtype))
        return y.reshape(x.shape[0], *space, -1)
