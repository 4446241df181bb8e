"""Posteriors that a cluster computes, by a room that builds on this one and enters itself here."""

from collections.abc import Callable
from typing import Any

from widetail.process._base import Posterior

_conditioners: list[Callable[..., Posterior]] = []


def register_cluster(condition: Callable[..., Posterior]) -> None:
    """Have `ScaleMixture.posterior(..., client=client)` call `condition`.

    It is called with the arguments of `ScaledPosterior.condition`, checked, then the class of posterior that the noise
    asks for, and `client`, `store` and `solver` as the user gave them.
    """
    _conditioners[:] = [condition]


def condition_on_cluster(*arguments: Any) -> Posterior:
    """What was registered last; a ValueError where nothing was."""
    if not _conditioners:
        raise ValueError(
            "client: nothing here works with clusters yet; import widetail.distributed.posterior first (using any "
            "name of widetail itself, such as widetail.ScaleMixture, does so)."
        )
    return _conditioners[-1](*arguments)
