"""An HTTP server of Python's library that gives out the files of a directory, for what fetches keys.

Prints `listening on URL`. Each request's path is appended to the file `asked` of the directory. Some paths misbehave: `redirect`, `slow`, `big`, `endless`
(more and more, in chunks), `drip` (a byte a second), `cut` (less than it promised), `gzip`, `garbage` (no HTTP). Ends with its standard input.

usage: key_server.py DIRECTORY [CERTIFICATE KEY]
"""

import gzip
import http.server
import os
import pathlib
import ssl
import sys
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    directory = pathlib.Path(sys.argv[1])

    def do_GET(self):
        with open(self.directory / "asked", "a") as asked:
            asked.write(self.path + "\n")
        name = self.path.split("?")[0].strip("/")
        file = self.directory / name
        if name == "garbage":
            self.wfile.write(b"hello, this is no HTTP\r\n\r\n")
        elif name == "redirect":
            self.answer(302, b"", Location="/jwks")
        elif name == "slow":
            time.sleep(60)
        elif name == "big":
            self.answer(200, b"x" * (2 << 20))
        elif name in ("endless", "drip"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while True:
                part = b"x" if name == "drip" else b"x" * 65536
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                time.sleep(1 if name == "drip" else 0)
        elif name == "cut":
            self.answer(200, (self.directory / "jwks").read_bytes(), more=10)
        elif name == "gzip":
            self.answer(200, gzip.compress((self.directory / "jwks").read_bytes()), **{"Content-Encoding": "gzip"})
        elif file.is_file():
            self.answer(200, file.read_bytes())
        else:
            self.answer(404, b"no such file")

    def answer(self, status, body, more=0, **headers):
        self.send_response(status)
        for header in headers.items():
            self.send_header(*header)
        self.send_header("Content-Length", str(len(body) + more))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", 0), Handler)
scheme = "http"
if len(sys.argv) > 2:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(sys.argv[2], sys.argv[3])
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "https"
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"listening on {scheme}://localhost:{server.server_address[1]}/", flush=True)
sys.stdin.read()
os._exit(0)
