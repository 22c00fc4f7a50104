"""How a run comes to an early end: by Ctrl-C, by SIGTERM, or because it took longer than it may."""

import signal
from contextlib import contextmanager

FAILED = 1
SIGNALS = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """The run has to end now. No `Exception`: whoever catches the faults of a round must not catch this."""

    def __init__(self, why, code):
        super().__init__(why)
        self.code = code  # with which the program ends, as a shell would report it


@contextmanager
def bounded(limit_s):
    """Raise `Stopped` inside when it takes too long or is asked to stop; once, so that cleaning up is not disturbed."""

    def stop(number, _frame):
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        signal.alarm(0)
        if number == signal.SIGALRM:
            raise Stopped(f"it took more than {limit_s / 60:g} minutes", FAILED)
        raise Stopped("it was asked to stop", 128 + number)

    earlier = {number: signal.signal(number, stop) for number in SIGNALS}
    signal.alarm(limit_s)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in earlier.items():
            signal.signal(number, handler)
