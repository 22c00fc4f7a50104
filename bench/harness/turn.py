"""One measurement at a time: two on the same cores would measure each other."""

import fcntl
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

LOCK = Path(tempfile.gettempdir()) / "penstock-bench.lock"
LIMIT_S = 600
PAUSE_S = 0.5


@contextmanager
def turn(lock=LOCK, limit_s=LIMIT_S, other="another measurement"):
    """Wait until no other measurement runs on this machine, and keep others waiting meanwhile."""
    with open(lock, "w") as held:
        deadline = time.monotonic() + limit_s
        told = False
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise RuntimeError(f"{other} has been running for {limit_s} s") from None
                if not told:
                    print(f"waiting for {other} to end...", file=sys.stderr)
                    told = True
                time.sleep(PAUSE_S)
        yield
