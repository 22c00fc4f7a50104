"""The early end of a run: by Ctrl-C, by SIGTERM, or after its time limit."""

import signal
from contextlib import contextmanager

FAILED = 1
SIGNALS = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """The run must end now. Not an `Exception`, so that handlers of failed rounds do not catch it."""

    def __init__(self, why, code):
        super().__init__(why)
        self.code = code  # the exit code, as a shell would report it


@contextmanager
def bounded(limit_s):
    """Raise `Stopped` inside after the time limit or a signal; once, so that cleaning up is not disturbed."""

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
