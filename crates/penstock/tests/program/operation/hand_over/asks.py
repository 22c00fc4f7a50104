"""Asks over HTTP/3 all the time, until a file is there. Arguments: KIND URL AUTHORITY_FILE CONTENT_FILE DIRECTORY.

KIND is `aioquic`, which makes a connection for each request; `curl` (ngtcp2 and nghttp3), which keeps a connection for as long as
the server does; or `curl-new`, which makes a connection for each request. The number of answers is in the file KIND of the
directory, whose file `enough` ends the client. Exit code 1 at the first answer that fails or has other bytes.
"""
import asyncio, os, sys, time
from urllib.parse import urlsplit

PAUSE = 0.01  # seconds; it leaves other tests some of the machine
kind, url, authority, content, directory = sys.argv[1:]
content = open(content, "rb").read()
name = f"{kind}{urlsplit(url).path.replace('/', '-')}"


def is_enough():
    return os.path.exists(os.path.join(directory, "enough"))


def note(number, status, body):
    if (status, body) != (200, content):
        sys.exit(f"answer {number} over {kind}: status {status}, {len(body)} of {len(content)} bytes")
    temporary = os.path.join(directory, f".{name}")
    with open(temporary, "w") as file:
        file.write(str(number))
    os.rename(temporary, os.path.join(directory, name))


async def ask_with_aioquic():
    from aioquic.asyncio.client import connect
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import ConnectionTerminated, StreamReset

    class Client(QuicConnectionProtocol):
        def get(self, path):
            self.http, self.status, self.body, self.end = H3Connection(self._quic), None, bytearray(), None
            self.done = asyncio.get_running_loop().create_future()
            head = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path.encode())]
            self.http.send_headers(self._quic.get_next_available_stream_id(), head, end_stream=True)
            self.transmit()
            return self.done

        def quic_event_received(self, event):
            if not hasattr(self, "done"):
                return
            ended = isinstance(event, (ConnectionTerminated, StreamReset))
            for http in self.http.handle_event(event):
                if isinstance(http, HeadersReceived):
                    self.status = int(dict(http.headers)[b":status"])
                elif isinstance(http, DataReceived):
                    self.body += http.data
                ended |= getattr(http, "stream_ended", False)
            if ended and not self.done.done():
                self.done.set_result((self.status, bytes(self.body)))

    target = urlsplit(url)
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], cafile=authority, server_name="localhost",
                                      max_data=1 << 24, max_stream_data=1 << 22)
    number = 0
    while not is_enough():
        number += 1
        async with connect("127.0.0.1", target.port, configuration=configuration, create_protocol=Client) as client:
            status, body = await asyncio.wait_for(client.get(target.path), 50)
        note(number, status, body)
        await asyncio.sleep(PAUSE)


def ask_with_curl(keeps):
    from curl_cffi import CurlHttpVersion, requests

    session, number = None, 0
    while not is_enough():
        number += 1
        if session is None or not keeps:
            session = requests.Session(http_version=CurlHttpVersion.V3ONLY, verify=authority, debug=True)
        response = session.get(url, timeout=50)
        if response.http_version != 30:
            sys.exit(f"answer {number} over {kind}: another version of HTTP, {response.http_version}")
        note(number, response.status_code, response.content)
        time.sleep(PAUSE)


if kind == "aioquic":
    asyncio.run(ask_with_aioquic())
else:
    ask_with_curl(kind == "curl")
