"""A connection of HTTP/3 to 127.0.0.1, over aioquic, which trusts every certificate."""

import asyncio
import ssl

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset


class Response:
    def __init__(self):
        self.status, self.body = 0, bytearray()
        self.done = asyncio.get_running_loop().create_future()

    def fail(self, why):
        if not self.done.done():
            self.done.set_exception(ConnectionError(why))


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.http, self.responses = H3Connection(self._quic), {}

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            for response in self.responses.values():
                response.fail(f"closed with {event.error_code:#x}")
        if isinstance(event, StreamReset) and event.stream_id in self.responses:
            self.responses[event.stream_id].fail(f"reset with {event.error_code:#x}")
        for http in self.http.handle_event(event):
            response = self.responses.get(http.stream_id)
            if response is None:
                continue
            if isinstance(http, HeadersReceived):
                response.status = response.status or int(dict(http.headers)[b":status"])
            if isinstance(http, DataReceived):
                response.body += http.data
            if http.stream_ended and not response.done.done():
                response.done.set_result(None)

    async def get(self, target):
        stream = self._quic.get_next_available_stream_id()
        response = self.responses[stream] = Response()
        head = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"live.test"), (b":path", target.encode())]
        self.http.send_headers(stream, head, end_stream=True)
        self.transmit()
        try:
            await response.done
        finally:
            del self.responses[stream]
        return response.status, bytes(response.body)


class Http3Connection:
    """Connects with the first request, and again after `close`."""

    def __init__(self, port):
        self.port, self.opening, self.context = port, None, None

    async def get(self, target):
        if self.opening is None:
            self.opening = asyncio.ensure_future(self.open())
        client = await asyncio.shield(self.opening)
        return await client.get(target)

    async def open(self):
        configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE, idle_timeout=120)
        self.context = connect("127.0.0.1", self.port, configuration=configuration, create_protocol=Client)
        return await self.context.__aenter__()

    def close(self):
        """Forgets the connection; a client that was connected says so to the server."""
        if self.opening is not None and self.opening.done() and not self.opening.exception():
            self.opening.result().close()
        self.opening = None
