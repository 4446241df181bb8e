"""A report in one HTML file, pictures inside."""

import base64
import html
import io
from pathlib import Path
from typing import Any

from widetail._write import write_whole

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
img { max-width: 100%; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: 0.3rem 0.8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child { text-align: left; }
.best { background: #eef6ee; }
pre { background: #f6f6f6; padding: 0.8rem; overflow-x: auto; }
figure { margin: 1.5rem 0; }
figcaption { color: #555; }
"""


class Report:
    """Paragraphs, tables and figures in the order in which they are added."""

    def __init__(self, title: str):
        self.title = title
        self.parts: list[str] = []

    def heading(self, text: str) -> None:
        """A section."""
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def paragraph(self, text: str) -> None:
        """Plain text."""
        self.parts.append(f"<p>{html.escape(text)}</p>")

    def listing(self, text: str) -> None:
        """Text whose line breaks count."""
        self.parts.append(f"<pre>{html.escape(text)}</pre>")

    def markup(self, text: str) -> None:
        """HTML that is already safe, such as that of a `ResultTable`."""
        self.parts.append(text)

    def figure(self, figure: Any, caption: str) -> None:
        """A matplotlib figure, which is closed."""
        from matplotlib import pyplot

        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130)
        pyplot.close(figure)
        data = base64.b64encode(buffer.getvalue()).decode()
        text = html.escape(caption)
        self.parts.append(
            f'<figure><img src="data:image/png;base64,{data}" alt="{text}"><figcaption>{text}</figcaption></figure>'
        )

    def write(self, path: Path) -> None:
        """Whole or not at all."""
        title = html.escape(self.title)
        head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        body = "\n".join([f"<h1>{title}</h1>", *self.parts])
        write_whole(path, f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'.encode())
