"""Self-attention with infinitely many heads, with positional embeddings."""

import enum
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.compat.neural_tangents._arrays import Number, masked, spread, zip_axes
from widetail.compat.neural_tangents._kernel import mask_pairs
from widetail.compat.neural_tangents._requirements import Bool, Diagonal, layer, requires, supports_masking

FAR_BELOW = -1e20  # a logit that leaves nothing of a masked position


class PositionalEmbedding(enum.Enum):
    """How random vectors of positions enter: not at all, added, or beside the features."""

    NONE = "NONE"
    SUM = "SUM"
    CONCAT = "CONCAT"


class AttentionMechanism(enum.Enum):
    """What becomes of the logits."""

    SOFTMAX = "SOFTMAX"
    IDENTITY = "IDENTITY"
    ABS = "ABS"
    RELU = "RELU"

    def fn(self) -> Callable[..., Any]:
        """The function of the logits; softmax goes over the last axis unless told another."""
        return {
            "SOFTMAX": jax.nn.softmax,
            "IDENTITY": lambda x: x,
            "ABS": jnp.abs,
            "RELU": lambda x: jnp.maximum(x, 0.0),
        }[self.name]


@layer
@supports_masking(remask_kernel=True)
def GlobalSelfAttention(  # noqa: N802
    n_chan_out: int,
    n_chan_key: int,
    n_chan_val: int,
    n_heads: int,
    linear_scaling: bool = True,
    W_key_std: Number = 1.0,
    W_value_std: Number = 1.0,
    W_query_std: Number = 1.0,
    W_out_std: Number = 1.0,
    b_std: Number = None,
    attention_mechanism: str = AttentionMechanism.SOFTMAX.name,
    pos_emb_type: str = PositionalEmbedding.NONE.name,
    pos_emb_p_norm: Number = 2,
    pos_emb_decay_fn: Callable[[Any], Any] | None = None,
    n_chan_pos_emb: int | None = None,
    W_pos_emb_std: Number = 1.0,
    val_pos_emb: bool = False,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Any:
    """Every position attends to all positions (Hron et al., 2020).

    With `linear_scaling` queries are keys and logits are divided by the number of key channels, so that they become
    numbers in the limit; without, by its root, which has a limit in closed form for "IDENTITY" alone.
    """
    logit_std, value_std = W_query_std * W_key_std, W_out_std * W_value_std
    embedding, mechanism = PositionalEmbedding(pos_emb_type), AttentionMechanism(attention_mechanism)
    is_softmax = mechanism == AttentionMechanism.SOFTMAX

    @functools.lru_cache(4)
    def correlations(space: tuple[int, ...]) -> np.ndarray:
        """Of the embeddings of all positions, as a matrix."""
        if pos_emb_decay_fn is None:
            return np.eye(math.prod(space))
        places = np.indices(space).reshape(len(space), -1)
        gaps = np.sum(np.abs(places[:, :, None] - places[:, None, :]).astype(float) ** pos_emb_p_norm, axis=0)
        with jax.ensure_compile_time_eval():
            return np.asarray(pos_emb_decay_fn(jnp.asarray(gaps)))

    def space_of(shape):
        fixed = (batch_axis % len(shape), channel_axis % len(shape))
        return tuple(size for axis, size in enumerate(shape) if axis not in fixed)

    def embedded(channels):
        return channels if n_chan_pos_emb is None else n_chan_pos_emb

    def init_fn(rng, input_shape):
        axis = channel_axis % len(input_shape)
        keys = jax.random.split(rng, 6)
        into_keys = into_values = input_shape[axis]
        table = None
        if embedding != PositionalEmbedding.NONE:
            shape = list(input_shape)
            shape[axis], shape[batch_axis] = embedded(input_shape[axis]), 1
            table = jax.random.normal(keys[5], shape)
            if embedding == PositionalEmbedding.CONCAT:
                into_keys += shape[axis]
                into_values += shape[axis] if val_pos_emb else 0
        key_weight = jax.random.normal(keys[1], (n_heads, into_keys, n_chan_key))
        value_weight = jax.random.normal(keys[2], (n_heads, into_values, n_chan_val))
        out_weight = jax.random.normal(keys[3], (n_chan_val * n_heads, n_chan_out))
        bias = None
        if b_std is not None:
            shape = [1] * len(input_shape)
            shape[axis] = n_chan_out
            bias = jax.random.normal(keys[4], shape)
        query_weight = None if linear_scaling else jax.random.normal(keys[0], (n_heads, into_keys, n_chan_key))
        output_shape = (*input_shape[:axis], n_chan_out, *input_shape[axis + 1 :])
        return output_shape, (query_weight, key_weight, value_weight, out_weight, bias, table)

    def apply_fn(params, inputs, mask=None, **kwargs):
        query_weight, key_weight, value_weight, out_weight, bias, table = params
        space = space_of(inputs.shape)

        def flat(x):
            x = jnp.moveaxis(x, (batch_axis, channel_axis), (0, -1))
            return x.reshape(x.shape[0], -1, x.shape[-1])

        h = flat(inputs)
        hidden = None if mask is None else jnp.all(flat(jnp.broadcast_to(mask, inputs.shape)), axis=-1)
        with_positions = h
        if table is not None:
            e = flat(table)
            if pos_emb_decay_fn is not None:
                e = jnp.asarray(np.linalg.cholesky(correlations(space)), e.dtype) @ e
            e = W_pos_emb_std * jnp.broadcast_to(e, (h.shape[0], *e.shape[1:]))
            e = e if hidden is None else masked(e, hidden[..., None])
            with_positions = h + e if embedding == PositionalEmbedding.SUM else jnp.concatenate([h, e], -1)
        source = with_positions if val_pos_emb else h
        keys = jnp.einsum("npc,hcd->hnpd", with_positions, key_weight)
        queries = keys if linear_scaling else jnp.einsum("npc,hcd->hnpd", with_positions, query_weight)
        values = jnp.einsum("npc,hcd->hnpd", source, value_weight)
        logits = jnp.einsum("hnpd,hnqd->hnpq", queries, keys)
        logits = logits * (logit_std / (with_positions.shape[-1] * n_chan_key ** (1 if linear_scaling else 0.5)))
        if hidden is not None:
            logits = jnp.where(hidden[None, :, None, :], FAR_BELOW if is_softmax else 0.0, logits)
        mixed = jnp.einsum("hnpq,hnqd->npdh", mechanism.fn()(logits), values)
        out = mixed.reshape(*mixed.shape[:2], -1) @ out_weight
        out = out * (value_std / (n_chan_val * n_heads * source.shape[-1]) ** 0.5)
        out = jnp.moveaxis(out.reshape(h.shape[0], *space, n_chan_out), (0, -1), (batch_axis, channel_axis))
        return out if bias is None else out + b_std * bias

    @requires(batch_axis=batch_axis, channel_axis=channel_axis, diagonal_spatial=Diagonal(input=Bool.NO))
    def kernel_fn(k, **kwargs):
        own, space = k.batch_ndim, space_of(k.shape1)
        in_cov1, in_nngp, in_cov2 = mask_pairs(k, k.mask1, k.mask2)
        between = {"cov1": in_cov1, "nngp": in_nngp, "ntk": in_nngp, "cov2": in_cov2}
        channels = k.shape1[channel_axis]
        share = 1.0
        if embedding == PositionalEmbedding.CONCAT:
            share = channels / (channels + embedded(channels))
        weight = W_pos_emb_std**2 * (1.0 if embedding == PositionalEmbedding.SUM else 1.0 - share)

        def placed(name, batch) -> Any:
            """The covariance of features together with their embeddings."""
            x = getattr(k, name)
            if x is None or embedding == PositionalEmbedding.NONE:
                return x
            R = zip_axes(jnp.asarray(correlations(space), x.dtype).reshape(*space, *space))
            R = jnp.broadcast_to(R[(None,) * batch], x.shape)
            return share * x + weight * masked(R, between[name])

        cov1, cov2 = placed("cov1", own), placed("cov2", own)
        nngp, ntk = placed("nngp", 2), placed("ntk", 2)
        bias = 0.0 if b_std is None else b_std**2
        if linear_scaling:

            def attention(cov, mask):
                """(n, positions, positions): numbers, in the limit."""
                if own == 2:
                    cov = jnp.moveaxis(jnp.diagonal(cov, axis1=0, axis2=1), -1, 0)
                size = math.prod(space)
                logits = jnp.moveaxis(spread(cov, 1, False), -1, 0).reshape(-1, size, size)
                if mask is not None:
                    hidden = jnp.all(mask, axis=channel_axis, keepdims=True)
                    hidden = jnp.moveaxis(hidden, (batch_axis, channel_axis), (0, -1))
                    hidden = jnp.broadcast_to(hidden, (len(logits), *space, 1)).reshape(-1, 1, size)
                    logits = jnp.where(hidden, FAR_BELOW if is_softmax else 0.0, logits)
                return mechanism.fn()(logit_std * logits)

            def attend(x, left, right, batch):
                size = math.prod(space)
                flat = jnp.moveaxis(spread(x, batch, False), range(-batch, 0), range(batch))
                flat = flat.reshape(*x.shape[:batch], size, size)
                rows = ("n", "n", "n") if batch == 1 else ("n", "m", "nm")
                out = jnp.einsum(f"{rows[0]}pa,{rows[2]}ab,{rows[1]}qb->{rows[2]}pq", left, flat, right, optimize=True)
                return value_std**2 * zip_axes(out.reshape(*x.shape[:batch], *space, *space), batch)

            first = attention(cov1, k.mask1)
            second = first if k.cov2 is None else attention(cov2, k.mask2)
            covs = (cov1, cov2, nngp, ntk) if val_pos_emb else (k.cov1, k.cov2, k.nngp, k.ntk)
            seen = attend(covs[2], first, second, 2)
            return k.replace(
                cov1=attend(covs[0], first, first, own) + bias,
                cov2=None if k.cov2 is None else attend(covs[1], second, second, own) + bias,
                nngp=seen + bias,
                ntk=None if k.ntk is None else attend(covs[3], first, second, 2) + bias + 2 * seen,
                is_gaussian=True,
                is_input=False,
            )
        if mechanism != AttentionMechanism.IDENTITY:
            raise NotImplementedError(
                f"attention_mechanism={mechanism.name!r} has no known limit without linear_scaling; 'IDENTITY' has."
            )

        def met(one, other, batch):
            """Sums over all pairs of positions."""
            return jnp.sum(one * other, axis=tuple(range(batch, one.ndim)), keepdims=True)

        factor = (logit_std * value_std) ** 2
        plain = (cov1, cov2, nngp, ntk) if val_pos_emb else (k.cov1, k.cov2, k.nngp, k.ntk)
        dot = met(nngp, plain[2], 2)
        tangent = None
        if k.ntk is not None:
            moved = met(nngp, plain[3], 2) + met(plain[2], ntk, 2)
            tangent = factor * (moved * nngp + dot * (ntk + 4 * nngp)) + bias
        return k.replace(
            cov1=factor * met(cov1, plain[0], own) * cov1 + bias,
            cov2=None if k.cov2 is None else factor * met(cov2, plain[1], own) * cov2 + bias,
            nngp=factor * dot * nngp + bias,
            ntk=tangent,
            is_gaussian=True,
            is_input=False,
        )

    def mask_fn(mask, input_shape):
        return jnp.all(mask, channel_axis, keepdims=True)

    return init_fn, apply_fn, kernel_fn, mask_fn
