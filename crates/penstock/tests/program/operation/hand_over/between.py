#!/usr/bin/python3
"""Stands between a process and its successor, and kills one of them behind a message.

The predecessor starts this file in place of the program. Its process becomes the program; a child of it passes messages on. The
file `between` beside it has three lines: which process is killed (`old` or `new`; `unsaid` is the new one before its message is passed
on; with `stop` the old one gets SIGTERM before that, with `hang` SIGSTOP), the subject of the message, and the program.
"""
import os, select, signal, socket, sys

own = os.path.dirname(os.path.abspath(sys.argv[0]))
victim, subject, program = open(os.path.join(own, "between")).read().split("\n")[:3]
old, new = int(os.environ["PENSTOCK_PREDECESSOR"]), os.getpid()
to_old = socket.socket(fileno=os.dup(0))
to_new, of_new = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
if os.fork():
    os.dup2(of_new.fileno(), 0)
    os.execv(program, [program, *sys.argv[1:]])
of_new.close()
os.close(0)


def message(source):
    """The next message with its descriptors; None at the end."""
    try:
        words, descriptors, _, _ = socket.recv_fds(source, 1 << 16, 64)
    except ConnectionError:
        return None
    return (words, descriptors) if words else None


def give(sink, words, descriptors):
    try:
        socket.send_fds(sink, [words], descriptors)
    except OSError:
        pass  # It has ended.
    for descriptor in descriptors:
        os.close(descriptor)


def relay():
    while True:
        ready, _, _ = select.select([to_old, to_new], [], [])
        for source, sink in [(to_old, to_new), (to_new, to_old)]:
            if source not in ready:
                continue
            received = message(source)
            if received is None:
                return
            is_last = received[0].split(b" ")[0].decode() == subject
            if is_last and victim in ("stop", "hang"):
                os.kill(old, signal.SIGTERM if victim == "stop" else signal.SIGSTOP)
                is_last = False
            if not (is_last and victim == "unsaid"):
                give(sink, *received)
            if is_last:
                killed, end = (old, to_old) if victim == "old" else (new, to_new)
                os.kill(killed, signal.SIGKILL)
                # Its end of the channel is closed when it has ended.
                while rest := message(end):
                    for descriptor in rest[1]:
                        os.close(descriptor)
                return


relay()
