"""What a comparison of a plain model with a mixture found, on images and their shifts."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from widetail.experiments.images._names import shown
from widetail.experiments.reporting._aggregate import paired_differences, summarise
from widetail.experiments.reporting._paper import PaperTable
from widetail.experiments.reporting._parts import Bullets, Figure, Prose, Section, Table
from widetail.experiments.reporting._reliability import reliability_figure
from widetail.experiments.reporting._tables import between, ours, papers, side_by_side
from widetail.experiments.running._registry import Findings, Results

CORNER = "data set"


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Two models on the same data, and what the paper has of them.

    Attributes:
        plain: name of the model with one readout variance, in rows and tables.
        mixture: name of the other.
        model: what either of them is, in a sentence.
        paper: the paper's numbers.
        to_nats: the factor from its NLL of a case to nats per image.
        unit_note: where that factor comes from.
        figure: name of the file of the reliability diagrams.
        protocol: how the paper did it, in sentences, from the configuration.
        ways: other ways to the same scores, by what the names of their columns in the rows end in.
    """

    plain: str
    mixture: str
    model: str
    paper: PaperTable
    to_nats: Callable[[str], float]
    unit_note: str
    figure: str
    protocol: Callable[[Any], Sequence[str]]
    ways: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def models(self) -> tuple[str, str]:
        """Both names."""
        return self.plain, self.mixture

    def findings(self, results: Results) -> Findings:
        """Sentences and sections of the report."""
        rows = [{**row, "case": _case(row)} for row in results.rows]
        cases = {row["case"]: shown(*row["case"].split("/")) for row in rows}
        gaps = paired_differences(rows, ("case",), "model", self.mixture, self.plain, ("seed",), "nll")
        return Findings(
            self._sentences(cases, gaps),
            [
                Section("Negative log-likelihood and accuracy", self._scores(rows, cases, gaps)),
                Section("Calibration", self._calibration(rows, cases)),
                Section("Classes that were never seen", self._unseen(rows, cases)),
                Section("Time", self._time(results)),
                Section("How this differs from the paper", [Bullets(list(self.protocol(results.config)))]),
            ],
        )

    def _sentences(self, cases: Mapping[str, str], gaps: Mapping[Any, Any]) -> list[str]:
        found = [gaps[(case,)] for case in cases]
        seeds = between([gap.size for gap in found], 0)
        clear = [gap for gap in found if gap.is_clear]
        better = sum(gap.mean < 0 for gap in clear)
        largest = f", by at most {max(abs(gap.mean) for gap in clear):.2g} nats" if clear else ""
        sentences = [
            f"NLL of {self.mixture} against that of {self.plain}, on {len(cases)} cases, {seeds} seeds, by a paired "
            f"t-test at 5 %: **lower on {better}, higher on {len(clear) - better}{largest}, neither on "
            f"{len(cases) - len(clear)}**."
        ]
        if all(gap.size == 1 for gap in found):
            sentences = [
                f"NLL of {self.mixture} minus that of {self.plain}, one seed, on {len(cases)} cases: "
                f"{between([gap.mean for gap in found], 4)} nats."
            ]
        left_out = [case for case in cases if case.endswith("/left_out")]
        if left_out:
            numbers = ", ".join(
                f"{cases[case]} {gap.mean:+.3f}" + (f" ± {gap.error:.3f}" if gap.size > 1 else "")
                for case in left_out
                for gap in [gaps[(case,)]]
            ).replace("-", "\N{MINUS SIGN}")
            sentences.append(
                f"With classes that were never seen in training (nats per image, {self.mixture} minus {self.plain}): "
                f"{numbers}."
            )
        return sentences

    def _scores(self, rows: Sequence[Mapping[str, Any]], cases: Mapping[str, str], gaps: Any) -> list[Any]:
        blocks: list[Any] = []
        titles = {
            "nll": (
                "NLL in nats per image, mean ± standard error over seeds; lower is better",
                "lowest",
                3,
                1.0,
                self.to_nats,
            ),
            "accuracy": (
                "Accuracy in per cent, mean ± standard error over seeds",
                "highest",
                2,
                100.0,
                lambda case: 1.0,
            ),
        }
        for score, (title, best, digits, factor, paper_factor) in titles.items():
            summaries = summarise(rows, ("case", "model"), score)
            columns = {}
            for model in self.models:
                name = "NLL" if score == "nll" else score
                columns[f"paper: {model}"] = papers(self.paper, f"{model} {name}", paper_factor)
                columns[model] = ours(summaries, model, factor=factor)
                for end, way in self.ways.items():
                    found = summarise(rows, ("case", "model"), score + end)
                    columns[f"{model}, {way}"] = ours(found, model, factor=factor)
            if score == "nll":
                columns[f"{self.mixture} minus {self.plain}"] = ours(gaps)
            beside = [name for name in columns if name not in self.models]
            table = side_by_side(title, CORNER, cases, columns, beside=beside, best=best, digits=digits)  # type: ignore[arg-type]
            blocks.append(Table(table, self.unit_note + _NOTE if score == "nll" else ""))
        return blocks

    def _calibration(self, rows: Sequence[Mapping[str, Any]], cases: Mapping[str, str]) -> list[Any]:
        ece = summarise(rows, ("case", "model"), "ece")
        columns = {model: ours(ece, model) for model in self.models}
        table = side_by_side("Expected calibration error, 15 bins; lower is better", CORNER, cases, columns, digits=4)
        pooled = {
            title: {
                model: [row for row in rows if (row["case"], row["model"]) == (case, model)] for model in self.models
            }
            for case, title in cases.items()
        }
        return [Table(table), Figure(self.figure, reliability_figure(pooled), _CAPTION)]

    def _unseen(self, rows: Sequence[Mapping[str, Any]], cases: Mapping[str, str]) -> list[Any]:
        auroc = summarise(rows, ("case", "model"), "auroc")
        seen = {case: name for case, name in cases.items() if case.endswith("/left_out")}
        if not seen:
            return [Prose("No classes were left out in this run.")]
        columns = {model: ours(auroc, model) for model in self.models}
        title = "AUROC of telling images of unseen classes from the others by the entropy of the probabilities"
        return [
            Table(side_by_side(title, CORNER, seen, columns, best="highest", digits=4)),
            Prose(
                "Models have an output for every class, also for those that they never see, and are scored on all test "
                "images, as in the paper: the NLL of an unseen class says how little a model has ruled it out."
            ),
        ]

    def _time(self, results: Results) -> list[Any]:
        seconds = summarise(results.rows, ("images", "training", "model"), "train_seconds")
        trainings = {f"{i}/{t}": shown(i, t) for i, t, _ in seconds}
        by_case = {(f"{i}/{t}", m): value for (i, t, m), value in seconds.items()}
        columns = {model: ours(by_case, model) for model in self.models}
        table = side_by_side(
            f"Processor seconds to train {self.model}", "training data", trainings, columns, best=None, digits=1
        )
        return [Table(table)]


_NOTE = "The last column is the mean ± standard error of the difference on the same seed."

_CAPTION = (
    "Accuracy against confidence, all seeds together; below the diagonal predictions are too sure of themselves. Bars "
    "are 95 % intervals."
)


def _case(row: Mapping[str, Any]) -> str:
    """Data set and what was shifted: the test images, or the training data."""
    return f"{row['images']}/{row['test'] if row['training'] == 'clean' else row['training']}"
