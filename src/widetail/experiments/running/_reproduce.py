"""Running an experiment and writing its report."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from widetail.experiments.reporting._markdown import to_markdown
from widetail.experiments.reporting._page import to_html
from widetail.experiments.reporting._parts import Code, Prose, Report, Section
from widetail.experiments.running._json import as_json
from widetail.experiments.running._registry import MODULES, Results, Size, default_folder, experiment
from widetail.experiments.running._runner import rows_of, run_tasks
from widetail.experiments.running._store import LINES, Store, name_of
from widetail.files import write_whole

PAGE = "report.html"


class Reproduced(NamedTuple):
    """What an experiment found.

    Attributes:
        page: path of the HTML page of the report.
        findings: its sentences, by the title of every experiment.
    """

    page: Path
    findings: dict[str, list[str]]


def reproduce(
    name: str,
    *,
    size: Size = "quick",
    out: Path | str | None = None,
    progress: bool = True,
    so_far: bool = False,
) -> Path:
    """Run an experiment of the paper and write a report.

    Results are appended to `rows.jsonl` in the folder as they come. A run that was interrupted, in whatever way, goes
    on where it stopped when it is started again with the same arguments.

    Args:
        name: one of `NAMES`, or "all".
        size: "quick" (two minutes on two cores, a part of the table) or "full".
        out: folder of the results and the report; `results/NAME-SIZE` by default. For "all" every experiment has a
            folder of its own in it.
        progress: whether to say on standard error how far it has come.
        so_far: only write the report, of the results that there are.

    Returns:
        Path of the HTML page. The same report as Markdown, `report.md`, is next to it.
    """
    return reproduced(name, size=size, out=out, progress=progress, so_far=so_far).page


def reproduced(
    name: str,
    *,
    size: Size = "quick",
    out: Path | str | None = None,
    progress: bool = True,
    so_far: bool = False,
) -> Reproduced:
    """As `reproduce`, with the sentences of the report beside its path."""
    if size not in get_args(Size):
        raise ValueError(f"size must be 'quick' or 'full'; got {size!r}.")
    if name != "all":
        folder = default_folder(name, size) if out is None else Path(out)
        return _finished([_run(name, size, folder, progress, _command(name, size, out), so_far)], folder)
    reports = []
    for part in MODULES:
        folder = default_folder(part, size) if out is None else Path(out) / part
        reports.append(
            _run(part, size, folder, progress, _command(part, size, None if out is None else folder), so_far)
        )
        _write(reports[-1:], folder)
    return _finished(reports, default_folder("all", size) if out is None else Path(out))


def _finished(reports: Sequence[Report], folder: Path) -> Reproduced:
    return Reproduced(_write(reports, folder), {report.title: list(report.findings) for report in reports})


def _run(name: str, size: Size, folder: Path, progress: bool, command: str, so_far: bool) -> Report:
    chosen = experiment(name)
    config = chosen.config(size)
    if progress:
        print(f"{name}: {config}", file=sys.stderr)
    tasks = chosen.tasks(config)
    with Store(folder, name, config) as store:
        all_tasks = len(tasks)
        if so_far:
            tasks = [task for task in tasks if name_of(task.key) in store.records]
        records = run_tasks(store, tasks, seed=config.seed, progress=progress)
        by_key = {name_of(record["task"]): record for record in records}

        def arrays(*key: str | int) -> Mapping[str, Any]:
            return store.arrays(by_key[name_of({str(place): part for place, part in enumerate(key)})])

        found = chosen.findings(Results(config, size, rows_of(records), arrays))
    sections = [*found.sections, _how_to_repeat(command, config, folder, records)]
    done = size if len(tasks) == all_tasks else f"{size}, {len(tasks)} of {all_tasks} tasks"
    return Report(f"{chosen.title} ({done})", chosen.question, found.sentences, _facts(records), sections)


def _command(name: str, size: Size, out: Path | str | None) -> str:
    place = "" if out is None else f" --out {shlex.quote(str(out))}"
    return f"widetail reproduce {name} --{size}{place}"


def _facts(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    started = sorted(record["started"] for record in records)
    days = list(dict.fromkeys((started[0][:10], started[-1][:10])))
    seconds = sum(record["seconds"] for record in records)
    versions = list(dict.fromkeys(f"widetail {r['versions']['widetail']}, jax {r['versions']['jax']}" for r in records))
    return {
        "date": " to ".join(days),
        "time": f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds",
        "commit": ", ".join(dict.fromkeys(record["commit"] for record in records)),
        "machine": "; ".join(dict.fromkeys(record["machine"] for record in records)),
        "versions": "; ".join(versions),
    }


def _how_to_repeat(command: str, config: Any, folder: Path, records: Sequence[Mapping[str, Any]]) -> Section:
    return Section(
        "How to repeat this",
        [
            Code(command),
            Prose(
                f"All {len(records)} results are in `{LINES}` in the same folder, one JSON line each, with the "
                "configuration, the seed, the commit and the machine. An interrupted run goes on where it stopped "
                "when the command is given again."
            ),
            Code(json.dumps(as_json(config), indent=1), "The whole configuration"),
        ],
    )


def _write(reports: Sequence[Report], folder: Path) -> Path:
    """The page, the Markdown and its figures."""
    title = reports[0].title if len(reports) == 1 else "widetail: all experiments"
    pictures = folder / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    for report in reports:
        for figure in report.figures():
            write_whole(pictures / f"{figure.name}.png", figure.png)
    write_whole(folder / "report.md", to_markdown(reports, pictures.name).encode())
    write_whole(folder / PAGE, to_html(reports, title).encode())
    return folder / PAGE
