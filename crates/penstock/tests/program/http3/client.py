"""A client of HTTP/3, over aioquic. Arguments: AUTHORITY_FILE ADDRESS PORT, then requests: METHOD PATH [BODY_FILE].

Environment: OPTIONS, a list divided by spaces:
  name=HOST        server name and authority
  at_once          all requests at once, on one connection
  rebind=N         another source port before request N
  rebind_at=BYTES  another source port after so many bytes
  new_id           goes to another source port with another connection id, too
  key_update=BYTES another generation of keys after so many bytes
  stop=BYTES       stops the first stream after so many bytes
  session=FILE     keeps the session ticket in a file, and resumes with the one that is there
  early            the first request in early data, if there is a ticket
  ahead=SECONDS    the ticket looks so much older
  record=FILE      keeps the datagrams that were sent before the first answer, in hexadecimal digits
  length=N         Content-Length of each request, whatever its body has
  priority=N:VALUE the Priority field of request N
  wait=FILE        no request before this file is there
  begin=FILE       no connection before this file is there; makes FILE.ready when it waits for it
  vanish           ends at once when the first request is sent, and closes nothing
Prints for each request a line `STATUS FIELDS-AS-JSON`, and writes the content to the file OUT.N, if OUT is set.
"""
import asyncio, datetime, json, os, pickle, ssl, sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

options = dict((option + "=").split("=", 1) for option in os.environ.get("OPTIONS", "").split())
options = {name: value.rstrip("=") for name, value in options.items()}


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.responses, self.done, self.total, self.ended = {}, {}, 0, None

    def connection_made(self, transport):
        super().connection_made(Recorder(transport) if "record" in options else transport)

    def datagram_received(self, data, address):
        self.answered = True
        super().datagram_received(data, address)

    def request(self, method, path, body, priority):
        stream = self._quic.get_next_available_stream_id()
        self.responses[stream] = [None, bytearray(), None]
        self.done[stream] = asyncio.get_running_loop().create_future()
        head = [(b":method", method.encode()), (b":scheme", b"https"),
                (b":authority", options.get("name", "localhost").encode()), (b":path", path.encode())]
        if priority:
            head.append((b"priority", priority.encode()))
        length = options.get("length", None if body is None else str(len(body)))
        if length is not None:
            head.append((b"content-length", length.encode()))
        self.http.send_headers(stream, head, end_stream=body is None)
        if body is not None:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        return self.done[stream]

    def finish(self, stream):
        if stream in self.done and not self.done[stream].done():
            self.done[stream].set_result(None)

    def reached(self, option):
        if option in options and self.total >= int(options[option]):
            del options[option]
            return True
        return False

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.ended = event
            for stream in self.done:
                self.finish(stream)
        if isinstance(event, StreamReset) and event.stream_id in self.responses:
            self.responses[event.stream_id][2] = event.error_code
            self.finish(event.stream_id)
        for http in self.http.handle_event(event):
            response = self.responses.get(getattr(http, "stream_id", None))
            if response is None:
                continue
            if isinstance(http, HeadersReceived):
                response[0] = [(name.decode(), value.decode()) for name, value in http.headers]
            elif isinstance(http, DataReceived):
                response[1] += http.data
                self.total += len(http.data)
            if self.reached("key_update"):
                self._quic.request_key_update()
            if self.reached("rebind_at"):
                self.rebinding = asyncio.ensure_future(self.rebind())
            if self.reached("stop"):
                self._quic.stop_stream(http.stream_id, 0x10C)
                self.transmit()
                self.finish(http.stream_id)
            if http.stream_ended:
                self.finish(http.stream_id)

    async def rebind(self):
        loop, old = asyncio.get_running_loop(), self._transport
        local = ("::", 0, 0, 0)
        import socket
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(local)
        transport, _ = await loop.create_datagram_endpoint(lambda: Relay(self), sock=sock)
        self._transport = transport
        old.close()
        if "new_id" in options:
            self._quic.change_connection_id()
        self._quic.send_ping(7)
        self.transmit()


class Recorder:
    """A transport that remembers what it sends."""

    def __init__(self, transport):
        self.transport, self.datagrams = transport, []

    def sendto(self, data, address=None):
        if not hasattr(self.get_protocol(), "answered"):
            self.datagrams.append(data.hex())
        self.transport.sendto(data, address)

    def __getattr__(self, name):
        return getattr(self.transport, name)


class Relay(asyncio.DatagramProtocol):
    def __init__(self, client):
        self.client = client

    def datagram_received(self, data, address):
        self.client.datagram_received(data, address)


async def main():
    authority, address, port, *rest = sys.argv[1:]
    requests = [argument.split(" ") for argument in rest]
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], cafile=authority,
                                      server_name=options.get("name", "localhost"), max_data=1 << 24,
                                      max_stream_data=1 << 22)
    if "vanish" in options:
        configuration.idle_timeout = 3600.0  # The server takes the shorter one of both.
    session = options.get("session")
    if session and os.path.exists(session):
        configuration.session_ticket = pickle.load(open(session, "rb"))
        configuration.session_ticket.not_valid_before -= datetime.timedelta(seconds=int(options.get("ahead", 0)))

    def keep(ticket):
        if session:
            pickle.dump(ticket, open(session, "wb"))

    if "begin" in options:
        open(options["begin"] + ".ready", "w").close()
    while "begin" in options and not os.path.exists(options["begin"]):
        await asyncio.sleep(0.01)
    async with connect(address, int(port), configuration=configuration, create_protocol=Client,
                       session_ticket_handler=keep, wait_connected="early" not in options) as client:
        while "wait" in options and not os.path.exists(options["wait"]):
            await asyncio.sleep(0.01)
        pending = []
        for number, (method, path, *body) in enumerate(requests):
            body = open(body[0], "rb").read() if body else None
            if options.get("rebind") == str(number):
                await client.rebind()
            priority = options.get("priority", "")
            priority = priority.split(":")[1] if priority.startswith(f"{number}:") else None
            done = client.request(method, path, body, priority)
            if "vanish" in options:
                os._exit(0)
            if "at_once" in options:
                pending.append(done)
            else:
                await asyncio.wait_for(done, 50)
        for done in pending:
            await asyncio.wait_for(done, 50)
        for number, (fields, content, reset) in enumerate(client.responses.values()):
            if fields is None:
                print("none", json.dumps({"reset": reset, "ended": repr(client.ended)}))
            else:
                fields = dict(fields)
                fields["reset"] = reset
                print(fields.pop(":status"), json.dumps(fields))
            if "OUT" in os.environ:
                open(f"{os.environ['OUT']}.{number}", "wb").write(content)
        tls = client._quic.tls
        if "record" in options:
            json.dump(client._transport.datagrams, open(options["record"], "w"))
        print("session", json.dumps({"resumed": tls.session_resumed, "early": tls.early_data_accepted,
                                     "ended": client.ended and client.ended.error_code}))


asyncio.run(main())
