"""A page in headless Chromium: what it shows, and what it complains about."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# Appended to a copy of the page: waits for every picture, then leaves what it saw in the document.
PROBE = """
<script>
const errors = [];
addEventListener("error", event => errors.push(String(event.message || event.target.src).slice(0, 200)), true);
Promise.all([...document.images].map(image => image.decode().catch(() => null))).then(() => {
  document.documentElement.dataset.seen = encodeURIComponent(JSON.stringify({
    images: [...document.images].map(image => image.naturalWidth),
    fetched: performance.getEntriesByType("resource").map(it => it.name).filter(name => !name.startsWith("data:")),
    overflow: document.documentElement.scrollWidth - innerWidth,
    background: getComputedStyle(document.body).backgroundColor,
    colour: getComputedStyle(document.body).color,
    errors,
  }));
});
</script>
"""


def look_at(page: Path, folder: Path, *options: str) -> dict:
    """Open a copy of `page`; what it holds, and every message of the console."""
    browser = next((found for name in NAMES if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed: the page was not opened in a browser")
    copy = folder / "copy.html"
    copy.write_text(page.read_text().replace("</body>", f"{PROBE}</body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--enable-logging=stderr"]
    flags += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", *options]
    done = subprocess.run(
        [browser, *flags, "--dump-dom", copy.as_uri()],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env=os.environ | {"HOME": str(folder)},
    )
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found, f"the page was not shown: {done.stderr[-2000:]}"
    return json.loads(unquote(found.group(1))) | {"console": re.findall(r".*:CONSOLE.*", done.stderr)}
