"""Code of Markdown pages, to be run."""

import re
import shlex
from pathlib import Path

from widetail.cli import main

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """Language and text of every block of code, in order."""
    return FENCE.findall((ROOT / page).read_text())


def run_page(page, languages=("python", "sh")):
    """Run the blocks of a page one after the other, Python ones in one namespace; how many there were.

    Of shell blocks, the lines that call `widetail` are run.
    """
    names = {"__name__": "page"}
    count = 0
    for language, text in blocks(page):
        if language not in languages:
            continue
        if language == "python":
            exec(compile(text, f"{page}, block {count}", "exec"), names)
        else:
            for line in text.splitlines():
                words = shlex.split(line, comments=True)
                if words and words[0] == "widetail":
                    assert main(words[1:]) == 0, line
        count += 1
    return count
