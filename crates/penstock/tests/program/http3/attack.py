"""Clients of HTTP/3 that misbehave, over aioquic. Arguments: AUTHORITY_FILE ADDRESS PORT ATTACK [NUMBER].

Attacks:
  initials N     sends the first flights of N clients, and nothing more
  resets N       opens N requests for /silent and resets each before it is answered
  unwanted N     sends N requests for /silent whose responses were stopped before
  priorities N   sends N PRIORITY_UPDATE frames
  malformed N    sends N requests without a path
  lengths N      sends N requests whose bodies are shorter than their Content-Length
  stalled        asks for /long.mp4 and gives no window after the first 64 KiB
  narrow         the same with a window of 100 bytes, in which no head fits
  challenges N   sends N PATH_CHALLENGE frames
  acks N         sends N frames that acknowledge the first packet again
  frequencies N  sends N ACK_FREQUENCY frames, an extension that the server does not offer
  unheard N      sends N requests without a path, and acknowledges nothing of their resets for two seconds
  credits N      sends N frames in which streams are blocked, and N that allow the server more of them
  reference      sends a field section that refers to the dynamic table of QPACK
  expand N       sends a field section of N fields, each of one byte
  insert N       has the decoder of QPACK insert N fields into its dynamic table
  updates N      updates the keys N times
  unknown N      opens N streams of a type that the server does not know
  control        opens a second control stream
  late           has the server close the connection, and then sends its last packet again
  reserved       sends a packet whose reserved bits are set
  stops N        asks for /long.mp4 N times, and stops each response after its head
  churn N        sends N requests, as many at once as the server allows
  parameters C   makes connections, one for each C with other transport parameters, and a usual one behind each: C is `LEFT_OUT:ADDED`,
                 the number of a parameter that is not sent (or `all`) and bytes that are, both in hexadecimal digits or empty
Prints an object: `code`, the error code with which the server closed the connection, or null; `answered`, the status of a request
after the attack, or null; `done`, how much of the attack the server has taken, for some of them. Of `parameters` it prints a list of pairs: the error code
or status of each connection, and of the usual one.
"""
import asyncio, json, socket, sys, time

from aioquic import tls
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import Buffer, encode_uint_var
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StreamReset
from aioquic.quic.packet import QuicFrameType, QuicPacketType


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http, self.code, self.statuses = H3Connection(self._quic), None, {}
        self.ended, self.reset = asyncio.Event(), asyncio.Event()

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.code = event.error_code
            self.ended.set()
        if isinstance(event, StreamReset):
            self.reset.set()
        for http in self.http.handle_event(event):
            if isinstance(http, HeadersReceived):
                self.statuses[http.stream_id] = dict(http.headers)[b":status"].decode()

    def request(self, path=b"/small.txt", end=True, stream=None):
        stream = self._quic.get_next_available_stream_id() if stream is None else stream
        head = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost")]
        self.http.send_headers(stream, head + ([(b":path", path)] if path else []), end_stream=end)
        return stream


class Keeper:
    """A transport that keeps the last datagram."""

    def __init__(self, transport):
        self.transport, self.last = transport, None

    def __getattr__(self, name):
        return getattr(self.transport, name)

    def sendto(self, data, address=None):
        self.last = (data, address)
        self.transport.sendto(data, address)


async def late(client):
    keeper = client._transport = Keeper(client._transport)
    await open_streams(client, 0, 1)
    await asyncio.wait_for(client.ended.wait(), 50)
    keeper.transport.sendto(*keeper.last)


async def reserve(client):
    pair = client._quic._cryptos[tls.Epoch.ONE_RTT]
    encrypt = pair.encrypt_packet
    pair.encrypt_packet = lambda head, *rest: encrypt(bytes([head[0] | 0x18]) + head[1:], *rest)
    client.request()
    client.transmit()
    await asyncio.wait_for(client.ended.wait(), 50)


async def in_rounds(client, count, step):
    """Calls `step` so often, and lets the connection send in between."""
    for number in range(count):
        # A stream beyond what the server allows would be an error of its own.
        if not await allowed(client, 1):
            return
        step()
        if number % 50 == 49:
            client.transmit()
            await asyncio.sleep(0.002)
            if client.ended.is_set():
                return
    client.transmit()


async def allowed(client, count):
    """Waits until the server allows so many more requests; False if it has ended the connection."""
    while client._quic._local_next_stream_id_bidi // 4 + count > client._quic._remote_max_streams_bidi:
        client.transmit()
        await asyncio.sleep(0.001)
        if client.ended.is_set():
            return False
    return True


async def reset(client, count):
    """Opens requests, and resets them when the server has taken them."""
    for _ in range(0, count, 50):
        if not await allowed(client, 50):
            return
        streams = [client.request(b"/silent", end=False) for _ in range(50)]
        client.transmit()
        try:
            await client.ping()
        except ConnectionError:
            return await client.ended.wait()
        for stream in streams:
            client._quic.reset_stream(stream, 0x10C)
            client._quic.stop_stream(stream, 0x10C)
        client.transmit()
        if client.ended.is_set():
            return


def initials(address, port, count):
    """Each client has a port of its own, and does not read."""
    for _ in range(count):
        connection = QuicConnection(configuration=QuicConfiguration(is_client=True, alpn_protocols=["h3"],
                                                                    server_name="localhost"))
        connection.connect((address, int(port)), now=time.time())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for datagram, _ in connection.datagrams_to_send(now=time.time()):
                sender.sendto(datagram, (address, int(port)))


def shorten(client):
    stream = client._quic.get_next_available_stream_id()
    head = [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/silent"),
            (b"content-length", b"9")]
    client.http.send_headers(stream, head)
    client.http.send_data(stream, b"hello", end_stream=True)


# Of draft-ietf-quic-ack-frequency.
ACK_FREQUENCY = 0xAF


async def unheard(client, count):
    """Provokes resets without an acknowledgement of anything."""
    connection = client._quic
    connection._write_ack_frame = lambda *_, **__: None
    for _ in range(count):
        client.request(path=None)
    client.transmit()
    await asyncio.sleep(2)
    del connection._write_ack_frame


def prioritize(client):
    payload = encode_uint_var(0) + b"u=1"
    frame = encode_uint_var(0xF0700) + encode_uint_var(len(payload)) + payload
    client._quic.send_stream_data(client.http._local_control_stream_id, frame)


async def flood(client, count, frames):
    """Sends so many of each of the frames, some in each packet."""
    connection, write = client._quic, client._quic._write_application
    left = [count]

    def with_frames(builder, network_path, now):
        if left[0] > 0 and connection._handshake_confirmed:
            builder.start_packet(QuicPacketType.ONE_RTT, connection._cryptos[tls.Epoch.ONE_RTT])
            for _ in range(min(left[0], 100 // len(frames))):
                for frame, payload in frames:
                    builder.start_frame(frame, capacity=9).push_bytes(payload)
                left[0] -= 1
        write(builder, network_path, now)

    connection._write_application = with_frames
    while left[0] > 0 and not client.ended.is_set():
        connection.send_ping(left[0])
        client.transmit()
        await asyncio.sleep(0.001)
    connection._write_application = write


def send_fields(client, block):
    """Sends a field section as it is."""
    stream = client._quic.get_next_available_stream_id()
    client._quic.send_stream_data(stream, b"\1" + encode_uint_var(len(block)) + block, end_stream=True)


async def insert(client, count):
    """A capacity of 4096 for the table, and fields that fill it again and again."""
    stream = client.http._local_encoder_stream_id
    field = b"\x49" + b"x-padding" + b"\x32" + bytes(50)
    client._quic.send_stream_data(stream, b"\x3f\xe1\x1f" + field * count)
    sender = client._quic._streams[stream].sender
    while sender.highest_offset < sender._buffer_stop and not client.ended.is_set():
        client.transmit()
        await asyncio.sleep(0.001)


async def open_streams(client, kind, count):
    """Opens unidirectional streams of a type as far as the server allows, and returns how many that were."""
    opened = 0
    for _ in range(count):
        for _ in range(1000):
            if client._quic._local_next_stream_id_uni // 4 < client._quic._remote_max_streams_uni:
                break
            client.transmit()
            await asyncio.sleep(0.002)
        else:
            break
        stream = client._quic.get_next_available_stream_id(is_unidirectional=True)
        client._quic.send_stream_data(stream, encode_uint_var(kind) + bytes(300), end_stream=True)
        opened += 1
        client.transmit()
    return opened


async def stop(client, count):
    """Stops responses after their heads."""
    for at in range(0, count, 50):
        if not await allowed(client, 50):
            return
        streams = [client.request(b"/long.mp4") for _ in range(50)]
        client.transmit()
        while not all(stream in client.statuses for stream in streams) and not client.ended.is_set():
            await asyncio.sleep(0.001)
        for stream in streams:
            client._quic.stop_stream(stream, 0x10C)
        client.transmit()


async def unwant(client, count):
    """Stops responses before their requests are sent, whose streams are gone then."""
    for _ in range(0, count, 50):
        if not await allowed(client, 50):
            return
        streams = []
        for _ in range(50):
            streams.append(client._quic.get_next_available_stream_id())
            client._quic.send_stream_data(streams[-1], b"\x21\0")
            client._quic.stop_stream(streams[-1], 0x10C)
        try:
            # The answers to the first, and their acknowledgements.
            await client.ping()
            await client.ping()
        except ConnectionError:
            return await client.ended.wait()
        for stream in streams:
            client.request(b"/silent", stream=stream)
        client.transmit()
        if client.ended.is_set():
            return


def changed(parameters, left_out, added):
    """A list of transport parameters (RFC 9000 §18) with another content."""
    buffer, kept = Buffer(data=parameters), b""
    while not buffer.eof():
        number = buffer.pull_uint_var()
        value = buffer.pull_bytes(buffer.pull_uint_var())
        if left_out not in (f"{number:x}", "all"):
            kept += encode_uint_var(number) + encode_uint_var(len(value)) + value
    return kept + bytes.fromhex(added)


async def outcome(address, port, configuration, change):
    """Asks for a file; returns the status, or the error code with which the server closed the connection."""
    def create(connection, **more):
        usual = connection._serialize_transport_parameters
        connection._serialize_transport_parameters = lambda: changed(usual(), *change.split(":"))
        return Client(connection, **more)

    async with connect(address, int(port), configuration=configuration, create_protocol=create,
                       wait_connected=False) as client:
        return await answer(client) or client.code


async def outcomes(*arguments):
    """The outcome of a connection with other parameters, and of a usual one behind it."""
    return [await outcome(*arguments), await outcome(*arguments[:-1], ":")]


async def answer(client):
    """Asks for a file; returns the status of the response, or None if the server closes the connection."""
    stream = client.request()
    client.transmit()
    for _ in range(2500):
        if client.ended.is_set() or stream in client.statuses:
            break
        await asyncio.sleep(0.02)
    return client.statuses.get(stream)


async def main():
    authority, address, port, attack, *rest = sys.argv[1:]
    number = int(rest[0]) if rest and attack != "parameters" else 0
    if attack == "initials":
        initials(address, port, number)
        return print("{}")
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], cafile=authority, server_name="localhost",
                                      max_stream_data={"stalled": 65536, "narrow": 100}.get(attack, 1 << 20))
    if attack == "parameters":
        each = [outcomes(address, port, configuration, change) for change in rest]
        return print(json.dumps(await asyncio.gather(*each)))
    async with connect(address, int(port), configuration=configuration, create_protocol=Client) as client:
        await client.ping()
        done = None
        if attack == "resets":
            await reset(client, number)
        elif attack == "unwanted":
            await unwant(client, number)
        elif attack == "priorities":
            await in_rounds(client, number, lambda: prioritize(client))
        elif attack == "malformed":
            await in_rounds(client, number, lambda: client.request(path=None))
        elif attack == "lengths":
            await in_rounds(client, number, lambda: shorten(client))
        elif attack == "challenges":
            await flood(client, number, [(QuicFrameType.PATH_CHALLENGE, bytes(8))])
        elif attack == "acks":
            await flood(client, number, [(QuicFrameType.ACK, bytes(4))])
        elif attack == "frequencies":
            await flood(client, number, [(ACK_FREQUENCY, bytes(4))])
        elif attack == "unheard":
            await unheard(client, number)
        elif attack == "credits":
            blocked, allowed = encode_uint_var(128), encode_uint_var(1 << 20)
            await flood(client, number, [(QuicFrameType.STREAMS_BLOCKED_BIDI, blocked),
                                         (QuicFrameType.MAX_STREAMS_UNI, allowed)])
        elif attack == "reference":
            send_fields(client, b"\2\0\x80")
        elif attack == "expand":
            send_fields(client, b"\0\0" + b"\xd1" * number)
        elif attack == "insert":
            await insert(client, number)
        elif attack == "updates":
            for _ in range(number):
                client._quic.request_key_update()
                await client.ping()
        elif attack == "unknown":
            done = await open_streams(client, 0x21, number)
        elif attack == "control":
            await open_streams(client, 0, 1)
        elif attack == "late":
            await late(client)
        elif attack == "reserved":
            await reserve(client)
        elif attack == "stops":
            await stop(client, number)
        elif attack == "churn":
            await in_rounds(client, number, client.request)
            while len(client.statuses) < number and not client.ended.is_set():
                await asyncio.sleep(0.002)
            done = list(client.statuses.values()).count("200")
        elif attack in ("stalled", "narrow"):
            client._quic._write_stream_limits = lambda **_: None
            client.request(b"/long.mp4")
            client.transmit()
            await asyncio.wait_for(client.reset.wait(), 50)
            if attack == "narrow":  # no further answer would fit either
                return print(json.dumps({"code": client.code}))
        status = None if client.ended.is_set() else await answer(client)
        print(json.dumps({"code": client.code, "answered": status, "done": done}))


asyncio.run(main())
