"""A replica in Python, as docs/PROTOCOL.md words it: none of convstore's code. Needs protoc, Python's protobuf and websockets (Debian:
protobuf-compiler, python3-protobuf, python3-websockets).

usage: sync_client.py URL USER TOKEN CONVERSATION TEXT

Syncs all that the user may see, pushes one message into the conversation, and waits until the hub has accepted it and sent it back; pushes it again,
which changes nothing; and resumes by its cursor in a second session, to which nothing is missing. Prints a line for each step, ends with 0 if all
went as they should.
"""

import asyncio
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import uuid

import websockets
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PROTOCOL = "convstore.sync.v1"
MESSAGE_MAX = 8 << 20
CREDIT = 8 << 20
TIMEOUT = 60


def compiled():
    """The messages of docs/convstore.proto."""
    docs = pathlib.Path(__file__).resolve().parents[2] / "docs"
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "set"
        subprocess.run(["protoc", "-I", docs, f"--descriptor_set_out={out}", docs / "convstore.proto"], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)

    def message(name):
        descriptor = pool.FindMessageTypeByName("convstore.v1." + name)
        if hasattr(message_factory, "GetMessageClass"):
            return message_factory.GetMessageClass(descriptor)
        return message_factory.MessageFactory(pool).GetPrototype(descriptor)

    return message


message = compiled()
Frame, Envelope, MessageSent, Wish = message("Frame"), message("Envelope"), message("MessageSent"), message("Fetch.Wish")
KIND_MESSAGE_SENT = 5


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: found {found!r}, expected {expected!r}")


class Replica:
    """What a replica keeps; here in memory."""

    def __init__(self, user, token):
        self.user, self.token = user, token
        self.nonce = os.urandom(16)
        self.id = hashlib.sha256(b"convstore replica" + user.encode() + self.nonce).digest()[:16]
        self.cursor = None
        self.counters = {}
        # Of each log: how many events are held. What came in runs is counted by the notes' heads, as runs are not decoded here.
        self.seqs = {}

    def hello(self):
        frame = Frame()
        hello = frame.hello
        hello.min_version = hello.max_version = 1
        hello.replica, hello.nonce, hello.user, hello.token, hello.credit = self.id, self.nonce, self.user, self.token, CREDIT
        if self.cursor is not None:
            hello.cursor.CopyFrom(self.cursor)
        return frame

    def message(self, conversation, text, is_first):
        """A PUSH of one message, with a new counter of this replica's lane in the conversation."""
        counter = self.counters[conversation] = self.counters.get(conversation, 0) + 1
        envelope = Envelope(
            conversation=conversation, replica=self.id, counter=counter, origin_hlc=int(time.time() * 1000) << 16, author=self.user,
            kind=KIND_MESSAGE_SENT, message=uuid.uuid4().bytes)
        frame = Frame()
        event = frame.push.events.add()
        event.envelope = envelope.SerializeToString(deterministic=True)
        event.body = MessageSent(text=text).SerializeToString(deterministic=True)
        event.is_first_sending = is_first
        return frame, counter


class Session:
    def __init__(self, ws, replica):
        self.ws, self.replica = ws, replica
        self.events = []
        self.runs = 0
        self.answers = []
        self.welcome = None
        self.is_caught_up = False
        self.owed = 0
        self.bytes = 0

    async def send(self, frame):
        data = frame.SerializeToString(deterministic=True)
        self.bytes += len(data)
        await self.ws.send(data)

    async def begin(self):
        await self.send(self.replica.hello())
        self.welcome = await self.next("welcome")
        equal(self.welcome.version, 1, "version")
        equal(self.welcome.is_gone, False, "gone")

    async def take(self):
        """The next frame, done what it asks for."""
        data = await asyncio.wait_for(self.ws.recv(), TIMEOUT)
        self.bytes += len(data)
        frame = Frame.FromString(data)
        kind = frame.WhichOneof("kind")
        if kind == "events":
            for item in frame.events.items:
                envelope = Envelope.FromString(item.envelope)
                log = envelope.conversation or envelope.user
                held = self.replica.seqs.get(log, 0)
                if envelope.seq > held:
                    # I2: a log's events come dense.
                    if held or envelope.seq == 1:
                        equal(envelope.seq, held + 1, "seq")
                    self.replica.seqs[log] = envelope.seq
                    self.events.append((envelope, item.body))
        elif kind == "segment":
            equal(len(frame.segment.run) > 0, True, "a run")
            for note in frame.segment.logs:
                if note.HasField("head"):
                    self.replica.seqs[note.conversation or note.user] = note.head.size
            self.runs += 1
        elif kind in ("accepted", "refused"):
            self.answers += [(kind, answer) for answer in getattr(frame, kind).answers]
        elif kind == "caught_up":
            self.replica.cursor = frame.caught_up.cursor
            self.is_caught_up = True
        elif kind == "ping":
            await self.send(Frame(pong=message("Pong")(id=frame.ping.id)))
        elif kind == "bye":
            raise AssertionError(f"the hub says BYE {frame.bye.code}: {frame.bye.reason}")
        if kind in ("events", "segment", "base"):
            self.is_caught_up = False
            self.owed += len(data)
            if self.owed > CREDIT // 4:
                await self.send(Frame(credit=message("Credit")(bytes=self.owed)))
                self.owed = 0
        return kind, getattr(frame, kind)

    async def next(self, wanted):
        while True:
            kind, body = await self.take()
            if kind == wanted:
                return body

    async def answer(self, counter):
        while True:
            for kind, answer in self.answers:
                if answer.counter == counter and answer.replica == self.replica.id:
                    self.answers.remove((kind, answer))
                    return kind, answer
            await self.take()

    async def event(self, counter):
        while True:
            for envelope, body in self.events:
                if envelope.counter == counter and envelope.replica == self.replica.id:
                    return envelope, body
            await self.take()

    async def bye(self):
        frame = Frame()
        frame.bye.code = 1
        await self.send(frame)
        await self.ws.close(1000)


def connect(url):
    return websockets.connect(url, subprotocols=[PROTOCOL], max_size=MESSAGE_MAX, open_timeout=TIMEOUT, close_timeout=TIMEOUT)


async def main(url, user, token, conversation, text):
    replica = Replica(user, token)
    conversation = uuid.UUID(conversation).bytes
    async with connect(url) as ws:
        session = Session(ws, replica)
        await session.begin()
        await session.next("caught_up")
        equal(conversation in replica.seqs, True, "the conversation came")
        print(f"caught up: {len(replica.seqs)} logs, {sum(replica.seqs.values())} events, {session.bytes} bytes", flush=True)

        before = replica.seqs[conversation]
        push, counter = replica.message(conversation, text, True)
        await session.send(push)
        kind, answer = await session.answer(counter)
        equal((kind, answer.conversation, answer.is_duplicate), ("accepted", conversation, False), "answer")
        envelope, body = await session.event(counter)
        equal((envelope.seq, envelope.hlc), (answer.seq, answer.hlc), "its seq and clock")
        equal(answer.seq, before + 1, "seq")
        equal(MessageSent.FromString(body).text, text, "text")
        print(f"accepted at seq {answer.seq}, and it came back", flush=True)

        # I3: as after a lost answer.
        push.push.events[0].is_first_sending = False
        await session.send(push)
        kind, again = await session.answer(counter)
        equal((kind, again.is_duplicate, again.seq), ("accepted", True, answer.seq), "the repeat's answer")
        # Of another lane, or in another's name, nothing is taken.
        for change in ("replica", "author"):
            push, counter = replica.message(conversation, text, True)
            wrong = Envelope.FromString(push.push.events[0].envelope)
            setattr(wrong, change, os.urandom(16) if change == "replica" else "someone else")
            push.push.events[0].envelope = wrong.SerializeToString(deterministic=True)
            await session.send(push)
            while not session.answers:
                await session.take()
            kind, refused = session.answers.pop()
            equal((kind, refused.code), ("refused", "forbidden"), change)
        print("a repeat is known, what is another's is refused", flush=True)
        while not session.is_caught_up:
            await session.take()
        await session.bye()

    async with connect(url) as ws:
        session = Session(ws, replica)
        await session.begin()
        await session.next("caught_up")
        equal((len(session.events), session.runs), (0, 0), "what a second session brings")
        equal(session.bytes < 4096, True, "a resume in less than 4 KiB")
        await session.bye()
    print(f"resumed: {session.bytes} bytes", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
