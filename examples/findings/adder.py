"""The function of examples/adder in Python: a sidecar in another language, for sidecar-call.yaml."""
import base64
import json
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Adder(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # header and body of an answer in one write

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        payload = base64.b64decode(given["payload"] or "")
        body = json.dumps({"result": given["first"] + given["second"], "checksum": zlib.crc32(payload)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Adder).serve_forever()
