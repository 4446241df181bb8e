"""A library at work in a process of its own."""

import json
import os
import subprocess
import tempfile
from typing import Any

from benchmarks import _peers
from benchmarks._report import ROOT


class Worker:
    """A process that has imported one library and answers requests, one JSON line each."""

    def __init__(self, library: str):
        python = _peers.python_of(library)
        self.library = library
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed with the process)
        self.process = subprocess.Popen(
            [str(python), "-m", f"benchmarks.workers.run_{library}"],
            cwd=ROOT,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.log.close()

    def ask(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Send a request, wait for the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"action": action} | arguments) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise RuntimeError(f"{self.library} stopped in the middle of {action}:\n{self.log.read()[-3000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.library} failed in {action}:\n{answer['error']}")
        return answer
