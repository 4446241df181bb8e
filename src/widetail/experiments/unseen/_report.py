"""What the experiment with classes that were never seen found."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from widetail.experiments.images._names import shown
from widetail.experiments.reporting._aggregate import paired_differences, summarise
from widetail.experiments.reporting._paper import SPARSE, printed
from widetail.experiments.reporting._parts import Bullets, Prose, Section, Table
from widetail.experiments.reporting._tables import Entry, ours, side_by_side
from widetail.experiments.running._registry import Findings, Results
from widetail.experiments.sparse import DOUBT, MIXTURE, PLAIN
from widetail.plots import ResultTable

# Names of models and of laws in the rows.
SHARED = MIXTURE
CODED_PLAIN, CODED, CODED_HELD = "SVGP as coded", "SVTP as coded", "SVGP as coded, scale of the SVTP"
OWN = "its own"
DOUBLED = "normal, twice the variance"
MODELS = (PLAIN, SHARED, DOUBT, CODED_PLAIN, CODED, CODED_HELD)
CORNER = "data set"

Rows = Sequence[Mapping[str, Any]]


def findings(results: Results) -> Findings:
    """Sentences and sections of the report."""
    own = [row for row in results.rows if row["law"] == OWN]
    images = {name: shown(name, "clean") for name in dict.fromkeys(row["images"] for row in own)}
    return Findings(
        _sentences(results.rows, own, images),
        [
            Section("Scores", [Prose("Mean and standard error over seeds."), *_scores(own, images)]),
            Section("The same fits with other tails", [Prose(_SWAPPED), *_tails(results.rows, images)]),
            Section("Scales and what belongs to the model", _laws(own, images)),
            Section("How it was done", [Bullets(_protocol(results))]),
        ],
    )


def _sentences(rows: Rows, own: Rows, images: Mapping[str, str]) -> list[str]:
    nll, seen = (summarise(own, ("images", "fit"), value) for value in ("nll", "nll_seen"))
    auroc = summarise(own, ("images", "fit"), "auroc")
    gaps = {
        pair: paired_differences(own, ("images",), "fit", *pair, ("seed",), "nll")
        for pair in ((SHARED, PLAIN), (CODED, CODED_PLAIN), (CODED_HELD, CODED_PLAIN))
    }
    swapped = {
        fit: summarise([row for row in rows if row["fit"] == fit], ("images", "law"), "nll")
        for fit in (SHARED, CODED_PLAIN, CODED)
    }
    tails = list(dict.fromkeys(row["law"] for row in rows if row["law"].startswith("t, ")))
    scale, shape = (summarise(own, ("images", "fit"), value) for value in ("scale", "a"))
    found = []
    for name, title in images.items():

        def of(table: Mapping[Any, Any], *key: str, name: str = name) -> float:
            return float(table[(name, *key)].mean)

        found.append(
            f"{title}, NLL of all test images: SVGP {of(nll, PLAIN):.3f}, with doubt **{of(nll, DOUBT):.3f}**, which "
            f"costs images of known classes {of(seen, DOUBT) - of(seen, PLAIN):+.4f}; AUROC of new classes by entropy "
            f"{of(auroc, PLAIN):.3f}, by doubt {of(auroc, DOUBT):.3f}."
        )
        of_shared = of(nll, SHARED) - of(swapped[SHARED], "normal")
        of_coded = of(nll, CODED) - of(swapped[CODED], "normal")
        found.append(
            f"{title}, what heavy tails alone are worth, the same fit against normal variables of the same scale: "
            f"one scale for all images {of_shared:+.3f}, a t variable for every image and class, as in the paper's "
            f"scripts, {of_coded:+.3f}."
        )
        gap = gaps[SHARED, PLAIN][(name,)]
        error = f" ± {gap.error:.3f}" if gap.size > 1 else ""
        found.append(
            f"{title}, SVTP minus SVGP, each with a scale of its own: {gap.mean:+.3f}{error} ({gap.size} "
            f"seeds) with scales {of(scale, SHARED):.3g} and {of(scale, PLAIN):.3g}; as coded "
            f"{of(gaps[CODED, CODED_PLAIN]):+.4f}; as coded, the SVGP with that SVTP's mean scale minus the SVGP "
            f"{of(gaps[CODED_HELD, CODED_PLAIN]):+.3f}."
        )
        changes = ", ".join(
            f"{of(swapped[CODED_PLAIN], law) - of(swapped[CODED_PLAIN], 'normal'):+.3f} ({law.removeprefix('t, ')})"
            for law in tails
        )
        printed_gap = (_printed(name, SHARED) - _printed(name, PLAIN)) / 100
        found.append(
            f"{title}, where the paper's SVTP minus SVGP ({printed_gap:+.3f}) comes from: on the SVGP as coded, with "
            "nothing else changed, t variables for every image and class in place of normal ones change the NLL of all "
            f"test images by {changes}. The paper's scripts ended near 17 degrees; trained to the end here their SVTP "
            f"has {2 * of(shape, CODED):.0f}, and the gain is {of(gaps[CODED, CODED_PLAIN]):+.4f}."
        )
    return found


def _printed(images: str, fit: str) -> float:
    """The paper's NLL, times 100."""
    return printed(SPARSE, f"{images}/left_out", f"{fit} NLL").value


def _scores(own: Rows, images: Mapping[str, str]) -> list[Table]:
    listed: tuple[tuple[str, str, Literal["lowest", "highest"] | None], ...] = (
        ("nll", "NLL of all test images, nats per image", "lowest"),
        ("nll_seen", "NLL of the classes that were seen", "lowest"),
        ("nll_unseen", "NLL of the classes that were left out", "lowest"),
        ("accuracy_seen", "Accuracy on the classes that were seen", "highest"),
        ("auroc", "AUROC of telling classes that were left out: by entropy, or by doubt where there is one", "highest"),
    )
    tables = []
    for value, title, best in listed:
        found = summarise(own, ("images", "fit"), value)
        columns = {name: ours(found, name) for name in MODELS}
        tables.append(Table(side_by_side(title, CORNER, images, columns, best=best, digits=3)))
    foreign = sorted({name for row in own for name in row if name.startswith("auroc_") and name != "auroc_hidden"})
    if not foreign:
        return tables
    names = {name: shown(name.removeprefix("auroc_"), "clean") for name in foreign}
    means = {(name,): summarise(own, (), name)[()] for name in foreign}
    title = "AUROC of telling images of other data sets from known classes of the first one, by doubt"
    return [*tables, Table(side_by_side(title, CORNER, names, {"AUROC": ours(means)}, best=None, digits=4))]


def _tails(rows: Rows, images: Mapping[str, str]) -> list[Table]:
    tables = []
    laws = {row["law"]: row["law"] for row in rows if row["law"] != OWN}
    order = ["normal", *(law for law in laws if law not in ("normal", DOUBLED)), DOUBLED]
    for name, title in images.items():
        mine = [row for row in rows if row["images"] == name]
        columns: dict[str, Entry] = {}
        for fit in (PLAIN, SHARED, CODED_PLAIN, CODED):
            of_fit = [row for row in mine if row["fit"] == fit]
            for value, short in (("nll_seen", "seen"), ("nll_unseen", "unseen")):
                columns[f"{fit}: {short}"] = ours(summarise(of_fit, ("law",), value))
        table: ResultTable = side_by_side(
            f"{title}: NLL of seen and unseen classes", "latent values", {law: law for law in order}, columns,
            best=None, digits=3,
        )  # fmt: skip
        tables.append(Table(table))
    return tables


def _laws(own: Rows, images: Mapping[str, str]) -> list[Table]:
    rows = {f"{name}/{fit}": f"{title}, {fit}" for name, title in images.items() for fit in MODELS}
    labelled = [{**row, "case": f"{row['images']}/{row['fit']}"} for row in own]
    columns = {
        title: ours(summarise(labelled, ("case",), value))
        for title, value in (
            ("scale: one over the mean of one over it", "scale"), ("a", "a"), ("b", "b"),
            ("share of the residual variance", "open_share"), ("price of doubt", "price"),
            ("AUROC of hidden classes", "auroc_hidden"), ("processor seconds", "processor_seconds"),
        )
    }  # fmt: skip
    return [Table(side_by_side("Mean over seeds", "fit", rows, columns, best=None, digits=3))]


_SWAPPED = (
    "Every latent value of a test image drawn by itself, with the centre and the scale that the fit gave it, from a "
    "normal law or from one of Student's: only the tails differ, not what was learned."
)


def _protocol(results: Results) -> list[str]:
    config = results.config
    seeds = len({row["seed"] for row in results.rows})
    return [
        f"{config.rows} training images without the classes {', '.join(map(str, config.left_out))}, "
        f"{config.inducing} inducing images, {config.test_rows} test images, {seeds} of {config.seeds} seeds. All "
        "models of a seed share kernel, inducing images and features.",
        "All ten classes have an output. Doubt gives a share of the probability to the classes without rows, and was "
        "learned by hiding other classes; no test image took part.",
        "SVGP and SVTP have full covariances, and one scale for all images and classes of a draw; the SVTP starts from "
        "the SVGP. As coded: diagonal covariances that are not whitened, all of what inducing images leave open, a "
        "normal or t variable of its own for every image and class, the divergence of the scale counted once, "
        f"{config.epochs} epochs of Adam. The paper's scripts move inducing images and variances of the network too.",
        "NLLs of independent variables: 512 Sobol draws of the other classes, quadrature for the class of the label; "
        "beside quadrature over all of them, normal means of many images differ by 0.02 nats at most.",
    ]
