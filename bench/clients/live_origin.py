"""A packager of low-latency HLS in real time: ffmpeg makes one part a second, this program announces and serves them.

Usage: live_origin.py PORT. A request for a playlist waits until it has the part in `_HLS_msn` and `_HLS_part`; so does a request
for the hinted part. `/count` returns as JSON the number of requests by kind and the time at which each part was ready.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from urllib.parse import parse_qs, urlsplit

PART_S = 1
PARTS_PER_SEGMENT = 4
FFMPEG = (
    "ffmpeg -hide_banner -loglevel error -re -f lavfi -i testsrc2=size=320x180:rate=24 -c:v libx264 -preset ultrafast"
    " -tune zerolatency -g 24 -keyint_min 24 -sc_threshold 0 -b:v 250k -f mp4"
    " -movflags +frag_keyframe+empty_moov+default_base_moof pipe:1"
).split()


class Stream:
    def __init__(self):
        self.head = b""
        self.parts = []
        self.ready_at = []
        self.more = asyncio.Condition()
        self.asked = Counter()
        self.targets = Counter()

    async def produce(self):
        """Cuts what ffmpeg writes into its head and parts: a `moof` and the `mdat` behind it."""
        ffmpeg = await asyncio.create_subprocess_exec(*FFMPEG, stdout=asyncio.subprocess.PIPE)
        part = b""
        while True:
            head = await ffmpeg.stdout.readexactly(8)
            kind = head[4:]
            box = head + await ffmpeg.stdout.readexactly(int.from_bytes(head[:4], "big") - 8)
            if kind in (b"ftyp", b"moov"):
                self.head += box
                continue
            part += box
            if kind == b"mdat":
                async with self.more:
                    self.parts.append(part)
                    self.ready_at.append(time.time())
                    self.more.notify_all()
                part = b""

    async def until(self, parts):
        async with self.more:
            await self.more.wait_for(lambda: len(self.parts) >= parts)

    def playlist(self):
        count = len(self.parts)
        whole = count // PARTS_PER_SEGMENT
        first = max(0, whole - 6)
        lines = [
            "#EXTM3U", "#EXT-X-VERSION:9", f"#EXT-X-TARGETDURATION:{PART_S * PARTS_PER_SEGMENT}",
            f"#EXT-X-PART-INF:PART-TARGET={PART_S}.1",
            f"#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK={3 * PART_S}.5",
            f"#EXT-X-MEDIA-SEQUENCE:{first}", '#EXT-X-MAP:URI="init.mp4"',
        ]  # fmt: skip
        for segment in range(first, whole + 1):
            for part in range(segment * PARTS_PER_SEGMENT, min(count, (segment + 1) * PARTS_PER_SEGMENT)):
                if segment >= whole - 2:
                    lines.append(f'#EXT-X-PART:DURATION={PART_S},URI="part{part}.m4s",INDEPENDENT=YES')
            if segment < whole:
                lines += [f"#EXTINF:{PART_S * PARTS_PER_SEGMENT},", f"segment{segment}.m4s"]
        lines.append(f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="part{count}.m4s"')
        return ("\n".join(lines) + "\n").encode()

    async def answer(self, target, writer):
        """Writes the answer to a request."""
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        name = path.rsplit("/", 1)[-1]
        kind = "playlist" if name.endswith(".m3u8") else name.rstrip("0123456789.m4sp") or "other"
        if name == "count":
            told = {"asked": self.asked, "ready_at": self.ready_at, "most": self.targets.most_common(3)}
            return whole(writer, json.dumps(told).encode(), "application/json", "no-store")
        self.asked[kind] += 1
        self.targets[target] += 1
        if kind == "playlist":
            if "_HLS_msn" in query:
                part = int(query["_HLS_part"][0]) + 1 if "_HLS_part" in query else PARTS_PER_SEGMENT
                await self.until(int(query["_HLS_msn"][0]) * PARTS_PER_SEGMENT + part)
            await self.until(PARTS_PER_SEGMENT)
            return whole(writer, self.playlist(), "application/vnd.apple.mpegurl")
        if name == "init.mp4":
            await self.until(1)
            return whole(writer, self.head, "video/mp4", "max-age=600")
        if kind == "part":
            number = int(name[4:-4])
            if number > len(self.parts):
                return whole(writer, b"not yet\n", "text/plain", status="404 Not Found")
            if number == len(self.parts):
                # The head is sent at once, the part when it is ready.
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nCache-Control: max-age=60\r\n")
                writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
                await writer.drain()
                await self.until(number + 1)
                part = self.parts[number]
                return writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(part), part))
            return whole(writer, self.parts[number], "video/mp4", "max-age=60")
        first = int(name[7:-4]) * PARTS_PER_SEGMENT
        return whole(writer, b"".join(self.parts[first : first + PARTS_PER_SEGMENT]), "video/mp4", "max-age=60")

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self.answer(head.split(b" ", 2)[1].decode(), writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def whole(writer, body, kind, caching=None, status="200 OK"):
    caching = f"Cache-Control: {caching}\r\n" if caching else ""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{caching}Content-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


async def main(port):
    stream = Stream()
    server = await asyncio.start_server(stream.serve, "127.0.0.1", port, backlog=4096)
    async with server:
        await stream.produce()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
