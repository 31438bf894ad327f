"""A proxy that copies bytes, as a sidecar for tare: python3 proxy.py LISTEN UPSTREAM

Both are IP:PORT. It opens one connection to UPSTREAM for each that it accepts, in two threads.
"""

import socket
import sys
import threading


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass  # the other direction has ended
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client):
    with client, socket.create_connection(UPSTREAM) as server:
        threading.Thread(target=copy, args=(client, server), daemon=True).start()
        copy(server, client)


LISTEN, UPSTREAM = address(sys.argv[1]), address(sys.argv[2])
listener = socket.create_server(LISTEN, backlog=128)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
