"""One run at a time on a store.

On a local or shared disk the operating system holds the lock, and lets go of it when the process dies. Behind a URL
there is no such thing: there a lease is renewed by a thread, and counts for nothing once it has not been for a while.
The package `filelock` has no leases, does not say who holds a lock, and would have to be installed for this alone.
"""

import json
import os
import socket
import threading
import time
import uuid
from typing import IO, Any

from widetail.stores._errors import StoreBusyError
from widetail.stores._locations import Location

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

LOCK, LEASE = "lock", "lease.json"
RENEW_SECONDS, STALE_SECONDS = 10.0, 60.0
SETTLE_SECONDS = 1.0  # two runs that take a lease at the same time see each other's after this


class RunLock:
    """Held from `acquire` to `release`; `check` raises when it was lost.

    Args:
        folder: where the lock is kept.
        name: of the store, for messages.
    """

    def __init__(self, folder: Location, name: str):
        self.folder, self.name = folder, name
        self.owner = {"host": socket.gethostname(), "pid": os.getpid(), "id": uuid.uuid4().hex}
        self.file: IO[bytes] | None = None
        self.stopped = threading.Event()
        self.lost = False
        self.thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Take the lock, or raise a `StoreBusyError` that says who has it."""
        if self.folder.is_remote or fcntl is None:
            self._take_lease()
        else:
            self._lock_file()

    def check(self) -> None:
        """Raise when another run has taken over, which happens to a process that was stopped for a minute."""
        if self.lost:
            raise StoreBusyError(f"store: another run took over {self.name!r} while this one did not answer.")

    def release(self) -> None:
        """Let go; twice does no harm."""
        self.stopped.set()
        if self.thread is not None:
            self.thread.join()
            self.thread = None
            if not self.lost:
                self.folder.inside(LEASE).remove()
        if self.file is not None:
            self.file.close()
            self.file = None

    def _lock_file(self) -> None:
        path = self.folder.path / LOCK
        while True:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+b")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[union-attr]
            except OSError:
                file.seek(0)
                holder = self._holder(file.read())
                file.close()
                raise self._busy(holder) from None
            try:
                # the folder may have been removed by the run that had the lock before
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    break
            except FileNotFoundError:
                pass
            file.close()
        file.truncate(0)
        file.write(json.dumps(self.owner).encode())
        file.flush()
        self.file = file

    def _take_lease(self) -> None:
        held = self._holder(self.folder.read(LEASE))
        if time.time() - held.get("time", 0.0) < STALE_SECONDS:
            raise self._busy(held)
        self._renew()
        time.sleep(SETTLE_SECONDS)
        held = self._holder(self.folder.read(LEASE))
        if held.get("id") != self.owner["id"]:
            raise self._busy(held)
        self.thread = threading.Thread(target=self._keep_renewing, name="widetail-lease", daemon=True)
        self.thread.start()

    def _renew(self) -> None:
        self.folder.write(LEASE, json.dumps({**self.owner, "time": time.time()}).encode())

    def _keep_renewing(self) -> None:
        while not self.stopped.wait(RENEW_SECONDS):
            if self._holder(self.folder.read(LEASE)).get("id") != self.owner["id"]:
                self.lost = True
                return
            self._renew()

    @staticmethod
    def _holder(data: bytes | None) -> dict[str, Any]:
        """What a lock or a lease says of its owner; nothing where there is none, or where it is damaged."""
        try:
            facts = json.loads(data or b"")
        except ValueError:
            return {}
        is_lease = isinstance(facts, dict) and isinstance(facts.get("time", 0.0), (int, float))
        return facts if is_lease else {}

    def _busy(self, holder: dict[str, Any]) -> StoreBusyError:
        who = f"process {holder['pid']} on {holder['host']}" if {"pid", "host"} <= holder.keys() else "another run"
        return StoreBusyError(
            f"store: {who} is writing to {self.name!r}. Wait for it, end it (what it finished is kept), or use "
            f"another store."
        )
