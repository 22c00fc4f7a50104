"""A client of HTTP/3 that sends bytes as they are, over the QUIC of aioquic. Arguments: AUTHORITY_FILE ADDRESS PORT, and on standard
input a list of cases, of which each gets a connection of its own:

  steps   what is sent: [STREAM, BYTES IN HEXADECIMAL DIGITS, THEN]. STREAM is `control`, `encoder` or `decoder`, which have their type
          and SETTINGS already, `rN` for a request or `uN` for another unidirectional stream. THEN is `end` (of the stream), `reset`, `stop`
          (of what the server sends on it), `refused` (the server allows no such stream, and nothing is sent), or empty
  bare    whether no stream has been opened before
  awaits  `connection`: the server closes the connection. `stream`: it resets r0. `response`: r0 is answered. `probe`: a request after
          all steps is answered, and a packet after that

Prints a list of what came: `closed`, the error code of the connection; `reset`, that of r0; `response` and `probe`, whether these
requests were answered with the file.
"""
import asyncio, json, sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamDataReceived, StreamReset

CONTENT = b"This file was sent whole.\n"


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.streams, self.data, self.ended, self.resets, self.closed = {}, {}, set(), {}, None
        self.changed = asyncio.Event()

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.closed = event.error_code
        elif isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
        elif isinstance(event, StreamDataReceived):
            self.data[event.stream_id] = self.data.get(event.stream_id, b"") + event.data
            if event.end_stream:
                self.ended.add(event.stream_id)
        self.changed.set()

    def put(self, name, data, then):
        if name not in self.streams:
            self.streams[name] = self._quic.get_next_available_stream_id(is_unidirectional=not name.startswith("r"))
        stream = self.streams[name]
        if then == "refused":
            assert stream // 4 >= self._quic._remote_max_streams_uni
            return
        self._quic.send_stream_data(stream, data, end_stream=then == "end")
        if then == "reset":
            self._quic.reset_stream(stream, 0x10C)
        if then == "stop":
            self._quic.stop_stream(stream, 0x10C)

    def is_answered(self, name):
        stream = self.streams.get(name)
        return stream in self.ended and self.data[stream].endswith(CONTENT)

    def report(self):
        return {"closed": self.closed, "reset": self.resets.get(self.streams.get("r0")),
                "response": self.is_answered("r0"), "probe": self.is_answered("r9")}

    def is_over(self, awaits):
        came = self.report()
        reached = {"connection": False, "stream": came["reset"] is not None}
        return self.closed is not None or reached.get(awaits, came.get(awaits))


async def run(case, probe, places, arguments):
    authority, address, port = arguments
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], cafile=authority, server_name="localhost")
    async with places, connect(address, int(port), configuration=configuration, create_protocol=Client) as client:
        if not case["bare"]:
            client.put("control", b"\0\4\0", "")
            client.put("encoder", b"\2", "")
            client.put("decoder", b"\3", "")
            client.transmit()
            # A reset would take the types of the streams back.
            await client.ping()
        for name, data, then in case["steps"]:
            client.put(name, bytes.fromhex(data), then)
            client.transmit()
            # So that the server reads the steps in their order.
            if client.closed is None:
                try:
                    await client.ping()
                except ConnectionError:
                    break
        if case["awaits"] == "probe" and client.closed is None:
            client.put("r9", bytes.fromhex(probe), "end")
            client.transmit()
        deadline = asyncio.get_running_loop().time() + 30
        while not client.is_over(case["awaits"]) and asyncio.get_running_loop().time() < deadline:
            client.changed.clear()
            try:
                await asyncio.wait_for(client.changed.wait(), 0.2)
            except asyncio.TimeoutError:
                pass
        if client.closed is None:
            try:
                await client.ping()
            except ConnectionError:
                pass
        report = client.report()
        client._quic.close()
        return report


async def main():
    told = json.load(sys.stdin)
    places = asyncio.Semaphore(8)
    runs = [run(case, told["probe"], places, sys.argv[1:]) for case in told["cases"]]
    print(json.dumps(await asyncio.gather(*runs)))


asyncio.run(main())
