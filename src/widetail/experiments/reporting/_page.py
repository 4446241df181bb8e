"""Reports as one HTML page that needs nothing else: pictures inside, no scripts, nothing to fetch."""

import base64
import html
import re
from collections.abc import Sequence

from widetail.experiments.reporting._page_style import STYLE
from widetail.experiments.reporting._parts import Block, Bullets, Code, Figure, Prose, Report, Section, Table, TextTable


def to_html(reports: Sequence[Report], title: str) -> str:
    """One page with all of the reports."""
    several = len(reports) > 1
    body = []
    if several:
        links = "".join(f'<li><a href="#r{i}">{_text(report.title)}</a></li>' for i, report in enumerate(reports))
        body.append(f'<header><h1>{_text(title)}</h1></header><nav aria-label="experiments"><ul>{links}</ul></nav>')
    for number, report in enumerate(reports):
        body.append(_report(report, f"r{number}", "h2" if several else "h1"))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _report(report: Report, anchor: str, heading: str) -> str:
    below = f"h{int(heading[1]) + 1}"
    facts = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in report.facts.items())
    links = "".join(
        f'<li><a href="#{anchor}-{i}">{_text(section.title)}</a></li>' for i, section in enumerate(report.sections)
    )
    findings = "".join(f"<li>{_text(finding)}</li>" for finding in report.findings)
    parts = [
        f'<article id="{anchor}">',
        f'<header><{heading}>{_text(report.title)}</{heading}><p class="lead">{_text(report.lead)}</p></header>',
        f'<section class="findings"><ul>{findings}</ul></section>' if findings else "",
        f'<dl class="facts">{facts}</dl>' if facts else "",
        f'<nav aria-label="sections"><ul>{links}</ul></nav>',
        *(_section(section, f"{anchor}-{i}", below) for i, section in enumerate(report.sections)),
        "</article>",
    ]
    return "\n".join(part for part in parts if part)


def _section(section: Section, anchor: str, heading: str) -> str:
    blocks = "\n".join(_block(block) for block in section.blocks)
    return f'<section id="{anchor}">\n<{heading}>{_text(section.title)}</{heading}>\n{blocks}\n</section>'


def _block(block: Block) -> str:
    match block:
        case Prose():
            return f"<p>{_text(block.text)}</p>"
        case Bullets():
            return "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in block.items) + "</ul>"
        case Table():
            note = f'<p class="note">{_text(block.note)}</p>' if block.note else ""
            return f'<div class="wide" tabindex="0">{block.results.to_html()}</div>{note}'
        case TextTable():
            head = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in block.head)
            lines = "".join("<tr>" + "".join(f"<td>{_text(c)}</td>" for c in line) + "</tr>" for line in block.lines)
            table = f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
            return f'<div class="wide" tabindex="0">{table}</div>'
        case Figure():
            picture = base64.b64encode(block.png).decode()
            caption = _text(block.caption)
            return (
                f'<figure><img src="data:image/png;base64,{picture}" alt="{html.escape(block.caption)}">'
                f"<figcaption>{caption}</figcaption></figure>"
            )
        case Code():
            pre = f"<pre><code>{html.escape(block.text)}</code></pre>"
            return f"<details><summary>{_text(block.title)}</summary>{pre}</details>" if block.title else pre


def _text(text: str) -> str:
    """Escaped, with `code` and **bold**."""
    escaped = html.escape(text, quote=False)
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", marked)
