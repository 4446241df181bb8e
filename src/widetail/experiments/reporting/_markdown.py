"""Reports as Markdown, with their figures in files beside it."""

from collections.abc import Sequence

from widetail.experiments.reporting._parts import Block, Bullets, Code, Figure, Prose, Report, Section, Table, TextTable


def to_markdown(reports: Sequence[Report], figure_folder: str) -> str:
    """One page; figures are linked as `figure_folder`/name.png."""
    pages = []
    for report in reports:
        parts = [f"# {report.title}", report.lead]
        if report.findings:
            parts.append("\n".join(f"- {finding}" for finding in report.findings))
        parts.append("; ".join(f"{name}: {value}" for name, value in report.facts.items()) + ".")
        parts += [_section(section, figure_folder) for section in report.sections]
        pages.append("\n\n".join(parts))
    return "\n\n".join(pages) + "\n"


def _section(section: Section, folder: str) -> str:
    return "\n\n".join([f"## {section.title}", *(_block(block, folder) for block in section.blocks)])


def _block(block: Block, folder: str) -> str:
    match block:
        case Prose():
            return block.text
        case Bullets():
            return "\n".join(f"- {item}" for item in block.items)
        case Table():
            return block.results.to_markdown() + (f"\n{block.note}" if block.note else "")
        case TextTable():
            lines = [block.head, ["---"] * len(block.head), *block.lines]
            return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        case Figure():
            return f"![{block.caption}]({folder}/{block.name}.png)\n\n*{block.caption}*"
        case Code():
            title = f"{block.title}:\n\n" if block.title else ""
            return f"{title}```\n{block.text}\n```"
