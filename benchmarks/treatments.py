"""What is done to images before the network: which treatment holds under corruptions of training images."""

from collections.abc import Iterator
from typing import Any

from benchmarks._process import Worker
from benchmarks._registry import Result, benchmark

SIZE = {"rows": 5000, "held_out": 1000, "inducing": 200, "seed": 0}
TREATMENTS: dict[str, Any] = {
    "all images around one background": "background",
    **{
        f"{smoothing}, {centre}{', tanh' if squash else ''}": {
            "smoothing": smoothing,
            "centre": centre,
            "squash": squash,
        }
        for smoothing, centre, squash in (
            ("none", "mean", False),
            ("none", "mean", True),
            ("mean", "mean", False),
            ("mean", "mean", True),
            ("mean", "border", False),
            ("mean", "border", True),
            ("binomial", "mean", False),
            ("binomial", "mean", True),
            ("median", "mean", False),
            ("wide", "mean", False),
            ("wide", "mean", True),
            ("wide", "border", True),
        )
    },
}


@benchmark(
    "treatments", "treatments of images: NLL of 1,000 corrupted training images after 5,000 others, 200 inducing"
)
def treatments() -> Iterator[Result]:
    for images in ("mnist", "fashion_mnist"):
        for name, treatment in TREATMENTS.items():
            with Worker("treatments") as worker:
                found = worker.ask("fit", images=images, treatment=treatment, **SIZE)
            nll = found["nll"]
            yield {
                "case": f"{images}: {name}",
                "mean NLL": f"{sum(nll.values()) / len(nll):.3f}",
                **{key: f"{value:.3f}" for key, value in nll.items()},
                "fit s": f"{found['seconds']:.0f}",
            }
