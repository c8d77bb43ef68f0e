"""A WebSocket server of Python's `websockets`, for our client.

Prints `listening on URL`. Echoes binary messages; `close:CODE` closes, `parts:N` answers one message of N bytes in as many fragments, `text` answers
a text message, `drop` cuts the connection. Ends with its standard input.

usage: echo_server.py [CERTIFICATE KEY]
"""

import asyncio
import ssl
import sys

import websockets


async def serve(ws):
    async for message in ws:
        words = message.decode("ascii", "replace").split(":") if len(message) < 100 else [""]
        if words[0] == "close":
            await ws.close(int(words[1]), "as you wish")
        elif words[0] == "parts":
            await ws.send([bytes([number & 255]) for number in range(int(words[1]))])
        elif words[0] == "text":
            await ws.send("text")
        elif words[0] == "ping":
            await (await ws.ping(b"are you there"))
            await ws.send(b"pong")
        elif words[0] == "drop":
            ws.transport.abort()
        else:
            await ws.send(message)


async def main(certificate=None, key=None):
    tls = None
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
    async with websockets.serve(serve, "127.0.0.1", 0, subprotocols=["convstore.sync.v1"], max_size=None, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        print(f"listening on {'wss' if tls else 'ws'}://{'localhost' if tls else '127.0.0.1'}:{port}/v1/sync", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
