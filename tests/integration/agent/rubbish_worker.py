"""Sends what no agent understands on some connections, and the largest values on a good one."""

import os
import socket
import struct
import sys


def connect():
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(os.environ["MUSTER_AGENT_SOCKET"])
    peer.settimeout(30)
    return peer


def frame(kind, payload):
    return struct.pack("<IHH", len(payload), kind, 1) + payload


def text(value):
    return struct.pack("<I", len(value)) + value


def take(peer, count):
    data = b""
    while len(data) < count:
        piece = peer.recv(count - len(data))
        if not piece:
            sys.exit("closed")
        data += piece
    return data


def closed(peer):
    try:
        while peer.recv(65536):
            pass
    except ConnectionResetError:
        pass
    peer.close()


good = connect()
good.sendall(frame(1, struct.pack("<Ii", 0, os.getpid())))
length, kind, _ = struct.unpack("<IHH", take(good, 8))
assert kind == 100, kind
take(good, length)

for rubbish in (b"\xff" * 64, frame(1, b""), frame(10, os.urandom(50)), frame(100, b"x" * 100),
                struct.pack("<IHH", 5, 2, 9) + b"12345"):
    peer = connect()
    peer.sendall(rubbish)
    closed(peer)


def answer():
    length, kind, _ = struct.unpack("<IHH", take(good, 8))
    payload = take(good, length)
    ident, code, size = struct.unpack("<QII", payload[:16])
    assert (kind, code) == (102, 0), (kind, ident, code)
    return ident, payload[20 + size:-8]


# Twenty answers of 1 MiB asked for at once: more than any socket buffer holds.
key = b"big/" + os.environ["RANK"].encode()
value = os.urandom(1 << 20)
good.sendall(frame(10, struct.pack("<QB", 1, 0) + text(key) + text(value)))
assert answer() == (1, b"")
for number in range(20):
    good.sendall(frame(11, struct.pack("<QB", 100 + number, 0) + text(key)))
answers = dict(answer() for _ in range(20))
assert sorted(answers) == list(range(100, 120)), sorted(answers)
assert all(each == value for each in answers.values())
print("good")
