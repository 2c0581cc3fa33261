"""A worker that speaks proto/local.h: registers as able to re-form, tells what it is told."""

import os
import socket
import struct
import sys

FOLDER = os.environ["TEST_FOLDER"]


def frame(kind, payload):
    return struct.pack("<IHH", len(payload), kind, 1) + payload


def text(value):
    raw = value.encode()
    return struct.pack("<I", len(raw)) + raw


class Agent:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(os.environ["MUSTER_AGENT_SOCKET"])
        self.socket.settimeout(60)

    def send(self, kind, payload):
        self.socket.sendall(frame(kind, payload))

    def receive(self):
        header = self.take(8)
        if header is None:
            sys.exit("the agent is gone")
        length, kind, _ = struct.unpack("<IHH", header)
        return kind, self.take(length)

    def take(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                return None
            data += piece
        return data


def tell(name, value):
    path = os.path.join(FOLDER, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(f"{value}\n")
    os.rename(path + ".new", path)


def main():
    agent = Agent()
    agent.send(1, struct.pack("<Ii", 1, os.getpid()))
    while True:
        kind, payload = agent.receive()
        if kind == 100:
            (attempt, number, rank, world, _, _, _, _, previous, restarts,
             _) = struct.unpack("<11I", payload[:44])
            print(f"round {number} rank {rank} of {world}", flush=True)
            # A key of this round, through agent and daemon, and the barrier of all.
            agent.send(10, struct.pack("<QB", 1, 0) + text(f"pid/{rank}") + text(str(os.getpid())))
            for other in range(world):
                agent.send(12, struct.pack("<QBQ", 100 + other, 0, 30000) + text(f"pid/{other}"))
            answers = {}
            while len(answers) < world + 1:
                kind, payload = agent.receive()
                if kind != 102:
                    sys.exit(f"frame {kind} in the middle of keys")
                number_, code, size = struct.unpack("<QII", payload[:16])
                value_at = 16 + size
                (value_size,) = struct.unpack("<I", payload[value_at:value_at + 4])
                answers[number_] = (code, payload[value_at + 4:value_at + 4 + value_size].decode())
            agent.send(14, struct.pack("<QQ", 2, 30000) + text("all"))
            kind, payload = agent.receive()
            code = struct.unpack("<QI", payload[:12])[1]
            pids = ",".join(answers[100 + other][1] for other in range(world))
            agent.send(2, struct.pack("<Bq", 1, number))
            tell(f"round-{number}.rank-{rank}",
                 f"pid={os.getpid()} world={world} previous={previous} restarts={restarts} "
                 f"barrier={code} pids={pids}")
        elif kind == 101:
            attempt, number = struct.unpack("<II", payload[:8])
            agent.send(3, struct.pack("<IIq", attempt, number, number))
        else:
            sys.exit(f"frame {kind} from the agent")


main()
