"""A path with a rate, a queue, a delay and losses between the two namespaces: two TUN devices, and a thread that forwards the packets.

The devices have no offloads, so that each packet is one of at most 1,500 bytes and is lost alone.
"""

import fcntl
import os
import random
import select
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass

TUN = "/dev/net/tun"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # of linux/if_tun.h
PACKET_BYTES = 2048
TAKEN_AT_ONCE = 64
IDLE_S = 0.05


@dataclass(frozen=True)
class Path:
    """Both directions have the same properties."""

    loss: float  # the part of the packets that is lost, each by itself
    delay_s: float  # of each direction
    bits_per_s: int
    queue_s: float  # what waits longer is dropped
    seed: int = 1


class _Lane:
    """One direction: where its packets come from, and those that are under way, in the order in which they arrive."""

    def __init__(self, source, sink, path, seed):
        self.source, self.sink, self.path = source, sink, path
        self.chance = random.Random(seed)
        self.under_way = deque()
        self.free_at = 0.0
        self.passed = self.lost = self.dropped = 0

    def take(self, now):
        for _ in range(TAKEN_AT_ONCE):
            try:
                packet = os.read(self.source, PACKET_BYTES)
            except BlockingIOError:
                return
            self.add(packet, now)

    def add(self, packet, now):
        begin = max(now, self.free_at)
        if begin - now > self.path.queue_s:
            self.dropped += 1
            return
        # A packet that is lost has taken its time on the link.
        self.free_at = begin + len(packet) * 8 / self.path.bits_per_s
        if self.chance.random() < self.path.loss:
            self.lost += 1
            return
        self.under_way.append((self.free_at + self.path.delay_s, packet))

    def give(self, now):
        while self.under_way and self.under_way[0][0] <= now:
            _, packet = self.under_way.popleft()
            try:
                os.write(self.sink, packet)
                self.passed += 1
            except OSError:  # the device is down, or its queue is full
                self.dropped += 1


class Forwarder:
    """The thread between the devices."""

    def __init__(self, ends, path):
        self.ends = ends
        self.lanes = [_Lane(*ends, path, path.seed), _Lane(*reversed(ends), path, path.seed + 1)]
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()

    def stop(self):
        self._stops.set()
        self._thread.join()
        for end in self.ends:
            os.close(end)

    def _run(self):
        by_source = {lane.source: lane for lane in self.lanes}
        while not self._stops.is_set():
            due = min((lane.under_way[0][0] for lane in self.lanes if lane.under_way), default=time.monotonic() + IDLE_S)
            wait = min(IDLE_S, max(0.0, due - time.monotonic()))
            for source in select.select(list(by_source), [], [], wait)[0]:
                by_source[source].take(time.monotonic())
            for lane in self.lanes:
                lane.give(time.monotonic())


def device(name):
    """A new TUN device in the namespace of this thread; its other end is the descriptor. The device goes when that is closed."""
    end = os.open(TUN, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return end
