"""A small HTTP server for examples/own-builds.yaml: a catalogue as JSON. With --cache it encodes it once."""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CATALOGUE = [{"id": i, "name": f"item {i}", "price": i * 1.25} for i in range(200)]


def encoded():
    return json.dumps(CATALOGUE).encode()


CACHED = encoded() if "--cache" in sys.argv else None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = CACHED or encoded()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)  # one write: a second one would wait for an acknowledgement

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
