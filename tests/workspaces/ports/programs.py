"""Programs that listen inside, each with its own manners. Only the standard library."""
import base64, hashlib, json, socket, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOISE = bytes((at * 2654435761 >> 13) & 255 for at in range(1 << 20))
MEGABYTES = 50


def note(text):
    with open("/workspace/notes", "a") as notes:
        notes.write(text + "\n")


class Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        note(f"{self.command} {self.path}")
        if self.path.startswith("/cookies"):
            cookies = ["plain=1; Path=/", "wide=1; Domain=localhost; Path=/", "__stead_port=stolen; Path=/"]
            more = [("Clear-Site-Data", '"cookies"'), ("Stead-Next-Offset", "9"), ("Connection", "X-Hop"), ("X-Hop", "1")]
            self.answer(200, b"", [("Set-Cookie", cookie) for cookie in cookies] + more)
        elif self.path == "/stream":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"10000\r\n" + NOISE[:65536] + b"\r\n")
            except OSError:
                note("stream closed")
                self.close_connection = True
        elif self.path == "/large":
            self.send_response(200)
            self.send_header("Content-Length", str(MEGABYTES << 20))
            self.end_headers()
            for _ in range(MEGABYTES):
                self.wfile.write(NOISE)
        else:
            told = {"path": self.path, "method": self.command, "peer": self.client_address[1], "headers": [list(pair) for pair in self.headers.items()]}
            self.answer(200, json.dumps(told).encode(), [("Content-Type", "application/json")])

    do_HEAD = do_DELETE = do_GET

    def do_POST(self):
        note(f"POST {self.path}")
        digest, size = hashlib.sha256(), 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while (length := int(self.rfile.readline(), 16)) > 0:
                piece = self.rfile.read(length)
                self.rfile.readline()
                digest.update(piece)
                size += length
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length", 0))
            while left > 0 and (piece := self.rfile.read(min(left, 1 << 20))):
                digest.update(piece)
                size += len(piece)
                left -= len(piece)
        self.answer(200, json.dumps({"size": size, "digest": digest.hexdigest()}).encode())

    def log_message(self, *_):
        pass


def pages(port):
    ThreadingHTTPServer(("0.0.0.0", port), Pages).serve_forever()


def each(port, serve):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def head(connection):
    got = b""
    while b"\r\n\r\n" not in got:
        piece = connection.recv(4096)
        if not piece:
            break
        got += piece
    return got


def garbage(connection):
    head(connection)
    connection.sendall(b"this is no HTTP at all\r\n\r\n")
    connection.close()


def silent(connection):
    while connection.recv(4096):
        note("silent heard something")
    note("silent hung up")


def websocket(connection):
    request = head(connection)
    note("upgrade " + ",".join(sorted(line.split(b":")[0].decode().lower() for line in request.split(b"\r\n")[1:] if b":" in line)))
    key = [line.split(b": ", 1)[1] for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")][0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    # Text frames of less than 126 bytes, masked by whoever sends them, are enough here.
    stream = connection.makefile("rb")
    while (first := stream.read(2)) and len(first) == 2 and first[0] == 0x81:
        mask = stream.read(4)
        text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(stream.read(first[1] & 127)))
        connection.sendall(bytes([0x81, len(text)]) + text)
    note("socket closed")
    connection.close()


def digests(connection):
    """Takes everything until its end, says what that was, and only then sends as much."""
    digest = hashlib.sha256()
    while piece := connection.recv(1 << 16):
        digest.update(piece)
    connection.sendall(digest.hexdigest().encode())
    for _ in range(MEGABYTES):
        connection.sendall(NOISE)
    connection.close()


def full(port):
    """Listens, and takes nobody."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", port))
    listener.listen(0)
    crowd = []
    for _ in range(8):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", port))
        crowd.append(one)
    print("full", flush=True)
    threading.Event().wait()


def many(port):
    """Listens on as many ports as it may, and holds as many connections to itself."""
    held = []
    try:
        for number in range(port, port + 3000):
            one = socket.socket()
            one.bind(("127.0.0.1", number))
            one.listen(8)
            held.append(one)
            two = socket.socket()
            two.connect(("127.0.0.1", number))
            held.append(two)
    except OSError:
        pass
    print(len(held), flush=True)
    threading.Event().wait()


kind, port = sys.argv[1], int(sys.argv[2])
single = {"garbage": garbage, "silent": silent, "websocket": websocket, "digests": digests}
if kind in single:
    each(port, single[kind])
else:
    {"pages": pages, "full": full, "many": many}[kind](port)
