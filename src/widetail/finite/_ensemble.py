"""Training of a few finite networks on minibatches, with early stopping and checkpoints."""

import dataclasses
import functools
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from widetail.checks import check_count
from widetail.files import fingerprint
from widetail.files.checkpoints import read_checkpoint, write_checkpoint
from widetail.finite._descent import Loss, Optimiser, Training, check_losses, descend, row_losses
from widetail.finite._draws import check_inputs
from widetail.finite._network import ScaledNetwork
from widetail.nn import Conv, Layer
from widetail.numerics import with_rows
from widetail.progress import Progress, reporter

Members = Literal["auto", "together", "in_turn"]

ROWS_AT_ONCE = 256
LEAST_GAIN = 1e-4  # of the validation loss, to count as one


@dataclasses.dataclass(frozen=True, eq=False)
class EnsembleFit:
    """Trained networks.

    Attributes:
        network: the architecture of all of them.
        scales: readout variance of each, shape (members,).
        parameters: parameters of all, with an axis of members in front of every array: those of the best epoch of each
            where rows were held out, the last ones otherwise.
        train_losses: mean loss of every epoch, shape (epochs, members).
        validation_losses: the same on the rows that each member holds out, NaN without them.
        best_epochs: the epoch (counted from 1) that each member's parameters are from.
        seconds: wall time, of this run only if it was resumed.
    """

    network: ScaledNetwork
    scales: Float[np.ndarray, " members"]
    parameters: Any
    train_losses: Float[np.ndarray, "epochs members"]
    validation_losses: Float[np.ndarray, "epochs members"]
    best_epochs: Int[np.ndarray, " members"]
    seconds: float

    def outputs(self, x: Any) -> Float[np.ndarray, "members n outputs"]:
        """The outputs of every network at the rows of `x`."""
        return member_outputs(self.network, self.parameters, self.scales, x)


def fit_ensemble(
    network: ScaledNetwork,
    scales: Any,
    x: Any,
    y: Any,
    *,
    key: PRNGKeyArray,
    loss: Loss = "squared",
    learning_rate: float = 0.01,
    batch_size: int = 128,
    max_epochs: int = 100,
    patience: int = 10,
    held_out: Any = None,
    members: Members = "auto",
    checkpoint: str | Path | None = None,
    progress: Progress = False,
) -> EnsembleFit:
    """Train one network per readout variance, all layers, with Adam on minibatches.

    The same arguments give the same networks bit for bit, also when the run was interrupted and resumed.

    Args:
        network: the architecture.
        scales: readout variances, one per member.
        x: inputs, (n, *shape).
        y: targets, (n, outputs), or class numbers (n,) for the cross-entropy.
        key: random key of the parameters, of the order of the rows and of dropout.
        loss: "squared" (summed over outputs) or "cross_entropy".
        learning_rate: of Adam. Parameters of the NTK parametrisation are of size 1, so it is larger than is usual.
        batch_size: rows per step.
        max_epochs: most passes through the data.
        patience: a member has finished when its validation loss has not improved for this many epochs.
        held_out: rows to stop by, which are not trained on: booleans of shape (n,), or (members, n) where every member
            holds out rows of its own. None trains all epochs on all rows.
        members: "together" in one vectorised loop, "in_turn", or "auto" for what is faster on this kind of network and
            device. Rounding differs between the two.
        checkpoint: a file that is written after every epoch; if it is there already, training resumes from it.
        progress: True for a bar on a terminal, or a function of (epochs done, most epochs).

    Raises:
        DivergenceError: the loss of a member is NaN or infinite.

    Example:
        >>> import jax, numpy as np, widetail as wt
        >>> network = wt.finite.ScaledNetwork(wt.nn.mlp(1), width=32)
        >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
        >>> fit = wt.finite.fit_ensemble(network, [0.5, 2.0], x, np.abs(x), key=jax.random.key(0), max_epochs=50)
        >>> fit.outputs(x).shape
        (2, 20, 1)
    """
    began = time.monotonic()
    x = check_inputs("x", x).astype(np.float32)
    if loss not in get_args(Loss):
        raise ValueError(f"loss must be 'squared' or 'cross_entropy'; got {loss!r}.")
    y = _check_targets(loss, "y", x, y, network.network.outputs)
    scales = np.asarray(scales, np.float64)
    if scales.ndim != 1 or not len(scales) or not np.all(np.isfinite(scales) & (scales > 0)):
        raise ValueError(f"scales must be positive variances, one per member; got {scales!r}.")
    stop_by = _check_held_out(held_out, len(scales), len(x))
    if not (isinstance(learning_rate, (int, float, np.number)) and 0 < learning_rate < math.inf):
        raise ValueError(f"learning_rate must be a positive number; got {learning_rate!r}.")
    for name, value in (("batch_size", batch_size), ("max_epochs", max_epochs), ("patience", patience)):
        check_count(name, value)
    together = _together(members, network)
    rows = _batch_rows(batch_size, len(x))
    run = _Run(network, scales, loss, float(learning_rate), rows, together, key, x, y, stop_by)
    # x and y by their bytes: a resumed run must go on with the same rows
    identity = "" if checkpoint is None else fingerprint(
        network, scales, loss, learning_rate, batch_size, patience, together, np.asarray(jax.random.key_data(key)),
        x, y, stop_by,
    )  # fmt: skip
    path = None if checkpoint is None else Path(checkpoint)
    state = run.start()
    epoch, history = 0, {"train": [], "validation": []}
    if path is not None and path.exists():
        state, facts = read_checkpoint(path, identity, state)
        epoch, history = facts["epoch"], facts["history"]
    report = reporter(progress, "epochs")
    while epoch < max_epochs and not (stop_by.any() and np.all(epoch - state.best_epoch >= patience)):
        report(epoch, max_epochs)
        epoch += 1
        training, losses = run.epoch(state.training, epoch)
        check_losses(losses, scales, learning_rate, f"in epoch {epoch}")
        history["train"].append(losses.tolist())
        state = state._replace(training=training)
        if not stop_by.any():
            state = state._replace(best=training.parameters, best_epoch=np.full(len(scales), epoch))
            history["validation"].append([math.nan] * len(scales))
        else:
            found = run.validate(training.parameters)
            check_losses(found, scales, learning_rate, f"in epoch {epoch} (validation)")
            history["validation"].append(found.tolist())
            state = _keep_best(state, found, epoch)
        if path is not None:
            write_checkpoint(path, identity, state, {"epoch": epoch, "history": history})
    report(max_epochs, max_epochs)
    return EnsembleFit(
        network=network,
        scales=scales,
        parameters=jax.tree.map(np.asarray, state.best),
        train_losses=np.array(history["train"]),
        validation_losses=np.array(history["validation"]),
        best_epochs=np.asarray(state.best_epoch),
        seconds=time.monotonic() - began,
    )


def member_outputs(network: ScaledNetwork, parameters: Any, scales: Any, x: Any) -> Float[np.ndarray, "members n out"]:
    """The outputs of networks with stacked parameters at the rows of `x`, shape (members, n, outputs), float64.

    One network and a fixed number of rows at a time, so that memory is bounded and one compiled function serves all.
    """
    x = np.asarray(x, np.float32)
    members = range(len(scales))
    return np.stack([_outputs_of_one(network, parameters, scales, member, x) for member in members]).astype(np.float64)


def _outputs_of_one(network: ScaledNetwork, parameters: Any, scales: Any, member: int, x: np.ndarray) -> np.ndarray:
    rows = ROWS_AT_ONCE  # always as many, so that a row's outputs do not depend on its neighbours, to the last bit
    scale = np.float32(scales[member])
    own = jax.tree.map(lambda leaf: leaf[member], parameters)
    parts = [
        np.asarray(_outputs(network, own, scale, with_rows(x[start : start + rows], rows)))[: len(x) - start]
        for start in range(0, len(x), rows)
    ]
    return np.concatenate(parts)


@functools.partial(jax.jit, static_argnums=0)
def _outputs(network: ScaledNetwork, parameters: Any, scale: Any, x: Any) -> Any:
    return network.apply(parameters, scale, x)


def _batch_rows(batch_size: int, n: int) -> int:
    """Rows of a batch: of few rows all, rounded up to a power of two, so that few functions have to be compiled."""
    return min(batch_size, 1 << (n - 1).bit_length())


def _check_targets(loss: Loss, name: str, x: np.ndarray, y: Any, outputs: int) -> np.ndarray:
    y = np.asarray(y)
    if loss == "cross_entropy":
        is_fine = y.shape == (len(x),) and np.issubdtype(y.dtype, np.integer) and np.all((y >= 0) & (y < outputs))
        expected = f"class numbers from 0 to {outputs - 1}, shape ({len(x)},)"
    else:
        is_fine = y.shape == (len(x), outputs) and np.issubdtype(y.dtype, np.floating) and np.all(np.isfinite(y))
        expected = f"finite numbers of shape ({len(x)}, {outputs})"
    if not is_fine:
        raise ValueError(f"{name}: targets must be {expected} for loss={loss!r}; got {y.dtype} of shape {y.shape}.")
    return y.astype(np.int32 if loss == "cross_entropy" else np.float32)


def _check_held_out(held_out: Any, members: int, n: int) -> np.ndarray:
    """Booleans of shape (members, n)."""
    if held_out is None:
        return np.zeros((members, n), bool)
    held_out = np.asarray(held_out)
    if held_out.dtype != bool or held_out.shape not in ((n,), (members, n)):
        raise ValueError(
            f"held_out must be booleans, one for every row of x, shape ({n},), or for every member and row, shape "
            f"({members}, {n}); got {held_out.dtype} of shape {held_out.shape}."
        )
    rows = np.broadcast_to(held_out, (members, n))
    counts = rows.sum(axis=1)
    if np.any(counts == 0) or np.any(counts == n):
        raise ValueError(
            f"held_out must leave every member rows to train on and rows to stop by; of {n} rows the members hold out "
            f"{counts.tolist()}. Use held_out=None to train on all of them."
        )
    return rows


def _together(members: Members, network: ScaledNetwork) -> bool:
    if members not in get_args(Members):
        raise ValueError(f"members must be 'auto', 'together' or 'in_turn'; got {members!r}.")
    if members != "auto":
        return members == "together"
    # Convolutions with filters of their own for every member become grouped ones, which are slow on a CPU.
    return jax.default_backend() != "cpu" or not _has_convolutions(network.network.body)


def _has_convolutions(layer: Layer) -> bool:
    return isinstance(layer, Conv) or any(map(_has_convolutions, getattr(layer, "layers", ())))


class _State(NamedTuple):
    """The content of a checkpoint; every array has an axis of members in front."""

    training: Training
    best: Any  # parameters
    best_loss: np.ndarray
    best_epoch: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class _Run:
    """Epochs of all members, together or in turn."""

    network: ScaledNetwork
    scales: np.ndarray
    loss: Loss
    rate: float
    batch_size: int
    together: bool
    key: PRNGKeyArray
    x: np.ndarray
    y: np.ndarray
    held_out: np.ndarray  # (members, n)

    def start(self) -> _State:
        numbers = np.arange(len(self.scales), dtype=np.uint32)
        training = _init(self.network, self.key, numbers, np.asarray(self.scales, np.float32), self.x.shape[1:])
        none = np.full(len(self.scales), np.inf)
        return _State(training, training.parameters, none, np.zeros(len(none), np.int64))

    def batches(self, epoch: int) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Rows in random order, and their weights for every member, (members, rows).

        Rows that a member holds out have no weight for it; nor have those that the last batch is filled with.
        """
        epoch_key = jax.random.fold_in(jax.random.fold_in(self.key, 2**31), epoch)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(epoch_key), np.uint32).tolist())
        order = rng.permutation(np.flatnonzero(~self.held_out.all(axis=0)))
        for number, start in enumerate(range(0, len(order), self.batch_size)):
            rows = order[start : start + self.batch_size]
            weights = np.zeros((len(self.scales), self.batch_size), np.float32)
            weights[:, : len(rows)] = ~self.held_out[:, rows]
            rows = with_rows(rows, self.batch_size)
            # the key of the batch is made where it is used: that costs nothing in a compiled function, and as much as a
            # small batch outside of it
            yield self.x[rows], self.y[rows], weights, (epoch_key, np.uint32(number))

    def epoch(self, state: Training, epoch: int) -> tuple[Training, np.ndarray]:
        """One pass through the data; the new state and the mean loss of every member."""
        scales = np.asarray(self.scales, np.float32)
        numbers = np.arange(len(scales), dtype=np.uint32)
        rate = np.float32(self.rate)
        if self.together:
            sums = []
            for x, y, weights, key in self.batches(epoch):
                state, losses = _step_together(
                    self.network, self.loss, state, scales, numbers, rate, x, y, weights, key
                )
                sums.append((losses, weights.sum(axis=1)))
            total = sum(np.asarray(losses, np.float64) * count for losses, count in sums)
            rows = sum(count for _, count in sums)
            return state, np.asarray(total / rows)
        found, total = [], np.zeros(len(scales))
        for number, scale in zip(numbers, scales, strict=True):
            own = jax.tree.map(lambda leaf, number=number: leaf[number], state)
            sums = []
            for x, y, weights, key in self.batches(epoch):
                own, loss = _step(self.network, self.loss, own, scale, number, rate, x, y, weights[number], key)
                sums.append((loss, weights[number].sum()))
            total[number] = sum(float(loss) * count for loss, count in sums) / sum(count for _, count in sums)
            found.append(own)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *found), total

    def validate(self, parameters: Any) -> np.ndarray:
        """Mean loss of every member on the rows that it holds out."""
        parameters = jax.tree.map(np.asarray, parameters)  # members of NumPy arrays are views, of JAX ones copies
        losses = []
        for member, rows in enumerate(self.held_out):
            f = _outputs_of_one(self.network, parameters, self.scales, member, self.x[rows])
            losses.append(float(np.mean(row_losses(self.loss, f.astype(np.float64), self.y[rows]))))
        return np.array(losses)


@functools.cache
def _adam() -> Optimiser:
    """Without a learning rate: applied outside of it, another rate needs no other compiled function."""
    import optax  # a tenth of the time of importing widetail, which most users do not need

    return optax.scale_by_adam()


@functools.partial(jax.jit, static_argnums=(0, 4))
def _init(network: ScaledNetwork, key: Any, numbers: Any, scales: Any, input_shape: tuple[int, ...]) -> Training:
    def one(number: Any, scale: Any) -> Training:
        parameters = network.init(jax.random.fold_in(key, number), input_shape, scale)
        with jax.numpy_dtype_promotion("standard"):  # optax is not written for the strict one
            return Training(parameters, _adam().init(parameters))

    return jax.vmap(one)(numbers, scales)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _step(
    network: ScaledNetwork, loss: Loss, state: Any, scale: Any, number: Any, rate: Any, x: Any, y: Any, weights: Any,
    key: Any,
) -> Any:  # fmt: skip
    epoch_key, batch = key
    own_key = jax.random.fold_in(jax.random.fold_in(epoch_key, batch), number)
    return descend(network, _adam(), loss, "all", state, scale, rate, x, y, weights, own_key)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _step_together(
    network: ScaledNetwork, loss: Loss, state: Any, scales: Any, numbers: Any, rate: Any, x: Any, y: Any, weights: Any,
    key: Any,
) -> Any:  # fmt: skip
    def one(state: Any, scale: Any, number: Any, weights: Any) -> Any:
        return _step(network, loss, state, scale, number, rate, x, y, weights, key)

    return jax.vmap(one)(state, scales, numbers, weights)


def _keep_best(state: _State, losses: np.ndarray, epoch: int) -> _State:
    """Members whose validation loss has improved keep their parameters."""
    better = losses < np.asarray(state.best_loss) - LEAST_GAIN
    best = jax.tree.map(
        lambda new, old: np.where(better.reshape((-1,) + (1,) * (new.ndim - 1)), new, old),
        state.training.parameters,
        state.best,
    )
    return state._replace(
        best=best,
        best_loss=np.where(better, losses, state.best_loss),
        best_epoch=np.where(better, epoch, state.best_epoch),
    )
