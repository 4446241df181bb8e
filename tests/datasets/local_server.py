"""A small HTTP server on this machine: byte ranges, broken transfers, refusals."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Behaviour:
    """What the server does; change it while it runs."""

    files: dict[str, bytes] = field(default_factory=dict)
    breaks: int = 0  # how many of the next transfers stop half-way
    knows_ranges: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # (path, Range header)
    url: str = ""


@contextlib.contextmanager
def local_server() -> Iterator[Behaviour]:
    behaviour = Behaviour()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            wanted = self.headers.get("Range")
            behaviour.requests.append((self.path, wanted))
            content = behaviour.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            start = 0
            if wanted and behaviour.knows_ranges:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.send_error(416)
                    return
            rest = content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            if behaviour.breaks > 0:
                behaviour.breaks -= 1
                rest = rest[: len(rest) // 2]
                self.close_connection = True
            self.wfile.write(rest)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        behaviour.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield behaviour
        finally:
            server.shutdown()
            thread.join()
