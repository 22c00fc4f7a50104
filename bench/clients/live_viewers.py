"""Viewers of a low-latency HLS stream: over HTTP/1.1 each with two connections, one for the playlist, which waits for the next
part, and one for the hinted part; over HTTP/3 with one for both, which needs aioquic.

Usage: live_viewers.py h1|h3 PORT VIEWERS SECONDS. Prints as JSON the time at which each viewer had the last byte of each
part, and the delay of each playlist after it was due.
"""

import asyncio
import json
import re
import sys
import time
from collections import Counter

PARTS_PER_SEGMENT = 4
RAMP_S = 5
LIMIT_S = 30
LAST = re.compile(rb'PRELOAD-HINT:TYPE=PART,URI="part(\d+)\.m4s"')


class Connection:
    def __init__(self, port):
        self.port = port
        self.reader = self.writer = None

    async def get(self, target):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(f"GET {target} HTTP/1.1\r\nHost: live.test\r\n\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        if b"\r\ntransfer-encoding: chunked" in head:
            body = b""
            while size := int(await self.reader.readline(), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
        else:
            body = await self.reader.readexactly(int(re.search(rb"\r\ncontent-length: (\d+)", head)[1]))
        if b"\r\nconnection: close" in head:
            self.close()
        return status, body

    def close(self):
        if self.writer is not None:
            self.writer.close()
            self.writer = None


class Viewer:
    def __init__(self, connections, until):
        (self.playlist, self.media), self.until = connections, until
        self.arrivals = {}
        self.told = {}
        self.failures = Counter()

    async def watch(self, delay):
        await asyncio.sleep(delay)
        status, body = await self.playlist.get("/live.m3u8")
        while status != 200:
            self.failures[f"playlist {status}"] += 1
            await asyncio.sleep(0.5)
            status, body = await self.playlist.get("/live.m3u8")
        self.joined = time.time()
        hinted = int(LAST.search(body)[1])
        await asyncio.gather(self.follow_playlist(hinted), self.follow_media(hinted))

    async def follow_playlist(self, part):
        while time.time() < self.until:
            query = f"_HLS_msn={part // PARTS_PER_SEGMENT}&_HLS_part={part % PARTS_PER_SEGMENT}"
            try:
                status, body = await asyncio.wait_for(self.playlist.get(f"/live.m3u8?{query}"), LIMIT_S)
            except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                self.failures[f"playlist {type(error).__name__}"] += 1
                self.playlist.close()
                continue
            hinted = int(LAST.search(body)[1]) if status == 200 else 0
            if hinted <= part:
                self.failures[f"playlist {status}, nothing new"] += 1
                await asyncio.sleep(0.1)
                continue
            self.told[part] = time.time()
            part = hinted

    async def follow_media(self, hinted):
        """The parts of the last three seconds, then each one hinted at."""
        part = max(0, hinted - 3)
        while time.time() < self.until:
            try:
                status, _ = await asyncio.wait_for(self.media.get(f"/part{part}.m4s"), LIMIT_S)
            except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                self.failures[f"part {type(error).__name__}"] += 1
                self.media.close()
                continue
            if status != 200:
                self.failures[f"part {status}"] += 1
                await asyncio.sleep(0.1)
                continue
            self.arrivals[part] = time.time()
            part += 1


def connections(protocol, port):
    """Those of one viewer."""
    if protocol == "h1":
        return Connection(port), Connection(port)
    from http3_connection import Http3Connection  # aioquic is there for HTTP/3 only

    return (Http3Connection(port),) * 2


async def main(protocol, port, count, seconds):
    until = time.time() + seconds
    viewers = [Viewer(connections(protocol, port), until) for _ in range(count)]
    await asyncio.gather(*(viewer.watch(RAMP_S * place / count) for place, viewer in enumerate(viewers)))
    for viewer in viewers:
        viewer.playlist.close()
        viewer.media.close()
    failures = sum((viewer.failures for viewer in viewers), Counter())
    seen = [{"joined": v.joined, "arrivals": v.arrivals, "told": v.told} for v in viewers]
    json.dump({"viewers": seen, "failures": failures, "cpu_s": time.process_time()}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:5])))
