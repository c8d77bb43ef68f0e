"""Checks a server's WebSocket against Python's `websockets` (Debian's python3-websockets).

usage: echo_client.py URL echo|hub [CA-FILE]

Prints one line for each case and ends with 0 if all went as they should.
"""

import asyncio
import os
import ssl
import sys

import websockets

PROTOCOL = "convstore.sync.v1"
MESSAGE_MAX = 8 << 20
TIMEOUT = 30


class Peer:
    def __init__(self, url, ca_file=None):
        self.url = url
        self.tls = ssl.create_default_context(cafile=ca_file) if url.startswith("wss:") else None

    def connect(self, protocol=PROTOCOL):
        return websockets.connect(
            self.url, subprotocols=[protocol] if protocol else None, max_size=None, ssl=self.tls, open_timeout=TIMEOUT, close_timeout=TIMEOUT
        )


async def closed(ws):
    """The code and reason with which the server closes, whatever comes before."""
    try:
        while True:
            await ws.recv()
    except websockets.ConnectionClosed:
        return ws.close_code, ws.close_reason


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"found {found!r}, expected {expected!r}")


# What any server of the protocol does.


async def handshake(peer):
    async with peer.connect() as ws:
        equal(ws.subprotocol, PROTOCOL)
        # Compression was offered, and is declined.
        equal(ws.extensions, [])


async def refused_protocols(peer):
    for protocol in ["convstore.sync.v9", None]:
        try:
            async with peer.connect(protocol):
                raise AssertionError("a socket was opened")
        except websockets.InvalidStatusCode as error:
            equal(error.status_code, 400)


async def ping(peer):
    async with peer.connect() as ws:
        for payload in [b"", b"x", os.urandom(125)]:
            await (await ws.ping(payload))


async def text(peer):
    async with peer.connect() as ws:
        await ws.send("text")
        equal((await closed(ws))[0], 1003)


async def too_large(peer):
    async with peer.connect() as ws:
        try:
            await ws.send(bytes(MESSAGE_MAX + 1))
        except websockets.ConnectionClosed:
            pass
        equal((await closed(ws))[0], 1009)


async def too_large_in_parts(peer):
    async with peer.connect() as ws:
        try:
            await ws.send([bytes(1 << 20)] * 9)
        except websockets.ConnectionClosed:
            pass
        equal((await closed(ws))[0], 1009)


async def goodbye(peer):
    ws = await peer.connect()
    await ws.close(1000, "done")
    equal(ws.close_code, 1000)


# What a server that echoes does.


async def sizes(peer):
    async with peer.connect() as ws:
        for size in [0, 1, 125, 126, 65_535, 65_536, 1 << 20, MESSAGE_MAX]:
            message = os.urandom(size)
            await ws.send(message)
            equal(await ws.recv() == message, True)


async def parts(peer):
    async with peer.connect() as ws:
        pieces = [b"first", b"", os.urandom(70_000), b"last"]
        await ws.send(pieces)
        equal(await ws.recv(), b"".join(pieces))
        # Each byte by itself, and a ping between them.
        async def bytes_with_ping():
            for number in range(200):
                if number == 100:
                    await ws.ping()
                yield bytes([number])

        await ws.send(bytes_with_ping())
        equal(await ws.recv(), bytes(range(200)))


async def order(peer):
    async with peer.connect() as ws:
        async def send():
            for number in range(5000):
                await ws.send(number.to_bytes(4, "big"))

        sending = asyncio.create_task(send())
        for number in range(5000):
            equal(await ws.recv(), number.to_bytes(4, "big"))
        await sending


async def close_codes(peer):
    for code in [1000, 1001, 4400, 4401, 4408, 4429]:
        async with peer.connect() as ws:
            await ws.send(f"close:{code}".encode())
            equal(await closed(ws), (code, "as you wish"))


async def many(peer):
    sockets = await asyncio.gather(*[peer.connect() for _ in range(100)])
    for number, ws in enumerate(sockets):
        await ws.send(str(number).encode())
    for number, ws in enumerate(sockets):
        equal(await ws.recv(), str(number).encode())
    await asyncio.gather(*[ws.close() for ws in sockets])


# What a hub does with one who does not speak the protocol.


async def nonsense(peer):
    async with peer.connect() as ws:
        await ws.send([b"\xff", b"nonsense"])
        equal((await closed(ws))[0], 4400)


COMMON = [handshake, refused_protocols, ping, text, too_large, too_large_in_parts, goodbye]
CASES = {"echo": COMMON + [sizes, parts, order, close_codes, many], "hub": COMMON + [nonsense]}


async def main(url, kind, ca_file=None):
    failures = 0
    for case in CASES[kind]:
        try:
            await asyncio.wait_for(case(Peer(url, ca_file)), 2 * TIMEOUT)
            print(f"ok {case.__name__}", flush=True)
        except Exception as error:  # What a case raises is its result.
            failures += 1
            print(f"FAILED {case.__name__}: {type(error).__name__}: {error}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[2] not in CASES:
        sys.exit(__doc__)
    sys.exit(asyncio.run(main(*sys.argv[1:])))
