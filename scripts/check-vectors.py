#!/usr/bin/env python3
"""Reads docs/vectors with protoc's descriptors and parsers of its own, as docs/FORMAT.md and docs/PROTOCOL.md word it: none of convstore's code.

Needs protoc, Python's protobuf and libzstd (Debian: protobuf-compiler, python3-protobuf, libzstd1).
"""
import base64
import ctypes
import ctypes.util
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ROOT = pathlib.Path(__file__).resolve().parent.parent
VECTORS = ROOT / "docs" / "vectors"
MASK = (1 << 64) - 1
REFUSALS = ("malformed too_large unknown_conversation conversation_conflict not_participant unknown_message message_conflict chunk_gap "
            "message_closed message_streaming message_deleted not_author origin_conflict").split()
checks = 0


def expect(found, wanted, what):
    global checks
    checks += 1
    if found != wanted:
        sys.exit(f"check-vectors: {what}:\n  found  {found!r}\n  wanted {wanted!r}")


def xxh64(data, seed=0):
    """As the xxHash specification words it."""
    p1, p2, p3, p4, p5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def rotl(x, n):
        return (x << n | x >> 64 - n) & MASK

    def step(acc, lane):
        return rotl(acc + lane * p2 & MASK, 31) * p1 & MASK

    i, n = 0, len(data)
    if n >= 32:
        accs = [seed + p1 + p2 & MASK, seed + p2 & MASK, seed & MASK, seed - p1 & MASK]
        while i + 32 <= n:
            accs = [step(a, lane) for a, lane in zip(accs, struct.unpack_from("<4Q", data, i))]
            i += 32
        h = sum(rotl(a, r) for a, r in zip(accs, (1, 7, 12, 18))) & MASK
        for a in accs:
            h = ((h ^ step(0, a)) * p1 + p4) & MASK
    else:
        h = seed + p5 & MASK
    h = h + n & MASK
    while i + 8 <= n:
        h = (rotl(h ^ step(0, struct.unpack_from("<Q", data, i)[0]), 27) * p1 + p4) & MASK
        i += 8
    if i + 4 <= n:
        h = (rotl(h ^ struct.unpack_from("<I", data, i)[0] * p1 & MASK, 23) * p2 + p3) & MASK
        i += 4
    for byte in data[i:]:
        h = rotl(h ^ byte * p5 & MASK, 11) * p1 & MASK
    h ^= h >> 33
    h = h * p2 & MASK
    h ^= h >> 29
    h = h * p3 & MASK
    return h ^ h >> 32


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise ValueError("cut short")
        self.at += n
        return self.data[self.at - n:self.at]

    def done(self):
        return self.at == len(self.data)

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.take(8))[0]

    def be64(self):
        return struct.unpack(">Q", self.take(8))[0]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                if byte == 0 and shift > 7 or value > MASK:
                    raise ValueError("not minimal")
                return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def block(self):
        return self.take(self.varint())

    def text(self):
        return self.block().decode()

    def log(self):
        return uuid(self.take(16)) if self.u8() == 0 else "user:" + self.text()


def uuid(raw):
    h = raw.hex()
    return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def load(name):
    return json.loads((VECTORS / name).read_text())


def messages():
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", f"--proto_path={ROOT / 'docs'}", f"--descriptor_set_out={out.name}", "convstore.proto"], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)

    def get(name):
        descriptor = pool.FindMessageTypeByName("convstore.v1." + name)
        if hasattr(message_factory, "GetMessageClass"):
            return message_factory.GetMessageClass(descriptor)
        return message_factory.MessageFactory(pool).GetPrototype(descriptor)

    kinds = {value.number: value.name for value in pool.FindEnumTypeByName("convstore.v1.Kind").values if value.number}
    bodies = {number: get("".join(part.capitalize() for part in name.split("_"))) for number, name in kinds.items()}
    return get("Envelope"), bodies, {number: name.lower().replace("_", ".", 1) for number, name in kinds.items()}, get("Frame")


ENVELOPE, BODIES, TYPES, FRAME = messages()


def given(message, field):
    return getattr(message, field) if message.HasField(field) else None


def body_fields(kind, raw, envelope):
    """What JSONL says of a body, and of the envelope's references; absent fields are None."""
    if kind not in BODIES:
        return {"type": "unknown", "kind": kind, "bytes": base64.b64encode(raw).decode()}
    m = BODIES[kind].FromString(raw)
    # Protocol Buffers allows many encodings; ours are in one form, which the library's deterministic one happens to be.
    expect(m.SerializeToString(deterministic=True), raw, f"canonical body of kind {kind}")
    t = TYPES[kind]
    f = {"type": t}
    about = uuid(envelope.message) if envelope.HasField("message") else None
    if t == "conversation.created":
        f |= {"kind": [None, "direct", "group", "assistant"][m.kind], "title": given(m, "title"), "participants": list(m.participants)}
    elif t == "conversation.updated":
        f |= {"title": given(m, "title"), "attributes": {a.name: given(a, "value") for a in m.attributes}}
        expect([a.name.encode() for a in m.attributes], sorted({a.name.encode() for a in m.attributes}), "order of attributes")
    elif t in ("participant.joined", "participant.left"):
        f |= {"user": m.user}
    elif t == "message.sent":
        f |= {"message_id": about, "role": ["user", "assistant", "system", "tool"][m.role], "text": m.text, "streaming": m.streaming or None,
              "parts": given(m, "parts"), "request_id": given(m, "request_id"),
              "reply_to": uuid(envelope.reply_to) if envelope.HasField("reply_to") else None}
    elif t == "chunk.appended":
        f |= {"message_id": about, "index": envelope.chunk_index, "text": m.text}
    elif t == "message.completed":
        usage = {"input_tokens": m.usage.input_tokens, "output_tokens": m.usage.output_tokens} if m.HasField("usage") else None
        f |= {"message_id": about, "finish_reason": given(m, "finish_reason"), "usage": usage}
    elif t == "message.interrupted":
        f |= {"message_id": about, "reason": m.reason}
    elif t == "message.edited":
        f |= {"message_id": about, "text": m.text}
    elif t == "message.deleted":
        f |= {"message_id": about}
    elif t == "reaction.set":
        f |= {"message_id": about, "emoji": m.emoji, "on": m.on}
    elif t in ("receipt.delivered", "receipt.read"):
        f |= {"up_to": about}
    elif t == "preference.set":
        f |= {"key": m.key, "value": given(m, "value"), "conversation_id": uuid(m.conversation)}
    elif t == "custom":
        f |= {"name": m.name, "payload": base64.b64encode(m.payload).decode()}
    return f


def event_fields(envelope_bytes, body):
    e = ENVELOPE.FromString(envelope_bytes)
    expect(e.SerializeToString(deterministic=True), envelope_bytes, "canonical envelope")
    expect(e.HasField("conversation") != e.HasField("user"), True, "one log")
    f = {"log": uuid(e.conversation) if e.HasField("conversation") else "user:" + e.user, "seq": e.seq,
         "origin": {"replica": uuid(e.replica), "counter": e.counter, "hlc": "%016x" % e.origin_hlc}, "hlc": "%016x" % e.hlc, "author": e.author,
         "target_seq": e.target_seq or None}
    if e.HasField("conversation"):
        f["conversation_id"] = f["log"]
    if body is not None:
        f |= body_fields(e.kind, body, e)
    return f


def same(found, wanted):
    strip = lambda d: {k: v for k, v in d.items() if v is not None and (k, v) != ("streaming", False)}
    return strip(found), strip(wanted)


def check_events():
    file = load("events.json")
    known = {}
    for v in file["events"]:
        envelope, body = bytes.fromhex(v["envelope"]), bytes.fromhex(v["body"])
        expect(*same(event_fields(envelope, body), v["input"]), v["name"])
        salt = bytes([v["input"]["seq"] & 255]) * 32
        expect(sha(salt, body).hex(), v["commitment"], v["name"] + ": commitment")
        expect(sha(b"\0", envelope, sha(salt, body)).hex(), v["leaf"], v["name"] + ": leaf")
        known[v["name"]] = (envelope, body)
    for v in file["newer"]:
        # A reader that does not know the fields still reads the others, and carries them.
        envelope = known[v["of"]][0] + bytes.fromhex(v["envelope_appends"])
        body = known[v["of"]][1] + bytes.fromhex(v["body_appends"])
        wanted = next(e["input"] for e in file["events"] if e["name"] == v["of"])
        expect(*same(event_fields(envelope, body), wanted), v["name"])
    expect({TYPES[k] for k in TYPES} <= {v["input"]["type"] for v in file["events"]}, True, "a vector of each kind")
    return known


def frame_fields(message):
    """What a vector says of a message of the protocol: bytes in hexadecimal, what holds its default left out."""
    def one(value):
        return value.hex() if isinstance(value, bytes) else frame_fields(value) if hasattr(value, "ListFields") else value

    def many(value):
        return not isinstance(value, (bytes, str, int)) and not hasattr(value, "ListFields")

    return {field.name: [one(v) for v in value] if many(value) else one(value) for field, value in message.ListFields()}


def replica_id(user, nonce):
    return sha(b"convstore replica", user.encode(), nonce)[:16]


def check_wire():
    file = load("frames.json")
    known = {}
    for v in file["frames"]:
        raw = bytes.fromhex(v["bytes"])
        frame = FRAME.FromString(raw)
        kind = frame.WhichOneof("kind")
        expect(kind, v["kind"], v["name"])
        expect(frame_fields(getattr(frame, kind)), v["fields"], v["name"])
        expect(frame.SerializeToString(deterministic=True), raw, v["name"] + ": bytes")
        if kind == "hello":
            expect(replica_id(frame.hello.user, frame.hello.nonce), frame.hello.replica, v["name"] + ": replica")
        known[v["name"]] = v["fields"]
    expect({v["kind"] for v in file["frames"]}, {f.name for f in FRAME.DESCRIPTOR.fields}, "a vector of each kind of frame")
    for v in file["newer"]:
        frame = FRAME.FromString(bytes.fromhex(v["bytes"]))
        expect(frame_fields(getattr(frame, frame.WhichOneof("kind"))), known[v["of"]], v["name"])
    for session in file["sessions"]:
        first = {}
        for m in session["messages"]:
            raw = bytes.fromhex(m["bytes"])
            frame = FRAME.FromString(raw)
            expect(frame.WhichOneof("kind"), m["kind"], session["name"])
            expect(frame.SerializeToString(deterministic=True), raw, session["name"] + ": bytes")
            first.setdefault(m["from"], m["kind"])
            # The events in it are read as those of events.json are.
            items = list(frame.push.events) + list(frame.hello.pushed) + list(frame.events.items)
            for item in items:
                event_fields(item.envelope, item.body)
        expect(first, {"replica": "hello", "hub": "welcome"}, session["name"] + ": who begins")
        expect(session["messages"][-1]["kind"], "bye", session["name"] + ": its end")


def check_frames(known):
    file = load("frame.json")
    for v in file["frames"]:
        raw, name = bytes.fromhex(v["bytes"]), v["name"]
        magic, size, checksum = struct.unpack_from("<IIQ", raw)
        generation, number, synced, previous, position, events, purpose = struct.unpack_from("<5QII", raw, 32)
        expect((magic, uuid(raw[16:32])), (0x464A5643, file["store"]), name)
        payload = raw[80:80 + size]
        expect(checksum, xxh64(payload, xxh64(raw[16:80], size)), name + ": checksum")
        expect(checksum, int(v["checksum"], 16), name + ": checksum")
        expect(raw[80 + size:], bytes(-(80 + size) % 8), name + ": padding")
        expect((generation, number, synced, previous, position, events, purpose),
               (v["generation"], v["number"], v["synced_through"], int(v["previous_checksum"], 16), v["first_position"], v["events"], v["purpose"]), name)
        r = Reader(payload)
        records = []
        while not r.done():
            kind = r.u8()
            first = r.block()
            if kind == 1:
                pair = (first, r.block())
                found = [n for n, other in known.items() if other == pair]
                records.append({"kind": 1, "event": found[0] if found else None})
                continue
            inner = Reader(first)
            record = {"kind": kind, "log": inner.log()}
            if kind == 2:
                record |= {"replica": uuid(inner.take(16)), "counter": inner.varint()}
                code, detail = inner.u8(), inner.text()
                record |= {} if code == 255 else {"refusal": REFUSALS[code]}
                # A duplicate's detail is the seq that it was answered with, or empty where the event's content tells it.
                record |= {} if code == 255 and not detail else {"detail": detail}
                expect(inner.done(), True, name + ": mark's end")
            else:
                record["wrapped"] = inner.data[inner.at:].hex()
            records.append(record)
        expect(records, v["records"], name)
        expect(sum(r["kind"] == 1 for r in records), events, name)


def decompress(data, size):
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(size + 1)
    expect(library.ZSTD_decompress(out, ctypes.c_size_t(size + 1), data, ctypes.c_size_t(len(data))), size, "decompressed size")
    return out.raw[:size]


def page_dictionary():
    """Dictionary 1, as the source has it in base64."""
    source = (ROOT / "Sources/Projections/Conversations/PageDictionary.swift").read_text()
    return base64.b64decode(re.sub(r"[\\\s]", "", source.split('"""')[1]))


def decompress_page(data, size, dictionary):
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_createDCtx.restype = ctypes.c_void_p
    library.ZSTD_decompress_usingDict.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(size + 1)
    written = library.ZSTD_decompress_usingDict(ctypes.c_void_p(library.ZSTD_createDCtx()), out, ctypes.c_size_t(size + 1), data,
                                                ctypes.c_size_t(len(data)), dictionary, ctypes.c_size_t(len(dictionary)))
    expect(written, size, "decompressed size of a page")
    return out.raw[:size]


def put_varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def check_run(known):
    file = load("run.json")
    raw, s = bytes.fromhex(file["bytes"]), file["position"]
    r = Reader(raw)
    magic, codec, events, slices, ids_size, packed, unpacked, frame_count = struct.unpack("<8I", r.take(32))
    expect((magic, codec, events), (0x31525643, 0, len(file["events"])), "run: header")
    ids_sum, columns_sum = r.u64(), r.u64()
    table = [(r.u32(), r.u32(), r.u64()) for _ in range(frame_count)]
    expect(frame_count > 1, True, "run: more than one text frame")
    end = r.at
    expect(r.u64(), xxh64(raw[:end], s), "run: header's checksum")
    ids = Reader(r.take(ids_size))
    expect(ids_sum, xxh64(ids.data, s), "run: ids")
    columns = r.take(packed)
    expect(columns_sum, xxh64(columns, s), "run: columns")
    columns = Reader(decompress(columns, unpacked))
    texts = b""
    for size, full, checksum in table:
        part = r.take(size)
        expect(xxh64(part, s), checksum, "run: texts")
        texts += decompress(part, full)
    expect(r.done(), True, "run: end")

    replica_count, commitment_count, explicit_count = ids.varint(), ids.varint(), ids.varint()
    heads = [ids.varint() for _ in range(slices)]
    conversations = [uuid(ids.take(16)) for h in heads if not h & 1]
    sent = [ids.take(16) for h in heads for _ in range(h >> 1)]
    replicas = [ids.take(16) for _ in range(replica_count)]
    explicit = [ids.take(16) for _ in range(explicit_count)]
    commitments = [ids.take(32) for _ in range(commitment_count)]
    expect(ids.done(), True, "run: ids' end")

    user_count = columns.varint()
    (users, directory, order_slices, order_counts, hub_times, hub_counters, kinds, flags, authors, new_authors, times, origin_counters, replica_column,
     counters, targets, indexes, text_lengths, rest_lengths, odd, rest) = (Reader(columns.block()) for _ in range(20))
    expect(columns.done(), True, "run: columns' end")
    users = [users.text() for _ in range(user_count)]

    rows, per_slice = [], []
    text_at = 0
    for head in heads:
        first, count = directory.varint(), directory.varint()
        log = "user:" + users[directory.varint()] if head & 1 else conversations.pop(0)
        per_slice.append(list(range(len(rows), len(rows) + count)))
        recent, replica, expected, time, target, seen, chunks = [], None, {}, 0, 0, {}, {}
        for seq in range(first, first + count):
            e = ENVELOPE(seq=seq, kind=kinds.varint())
            if head & 1:
                e.user = log[5:]
            else:
                e.conversation = bytes.fromhex(log.replace("-", ""))
            flag, rank = flags.u8(), authors.varint()
            author = recent.pop(rank) if rank < len(recent) else new_authors.varint()
            recent.insert(0, author)
            e.author = users[author]
            if flag & 1:
                replica = replica_column.varint()
            e.replica = replicas[replica]
            e.counter = expected.get(replica, 1) + (counters.varint() if flag & 2 else 0) & MASK
            expected[replica] = e.counter + 1 & MASK
            step = times.varint()
            is_hub_time = step == 0
            if not is_hub_time:
                time = time + (step - 1 >> 1 ^ -(step - 1 & 1))
                e.origin_hlc = time << 16 | (origin_counters.varint() if flag & 4 else 0)
            extra = b""
            if flag & 64:
                if e.kind == 5:
                    sent.pop(0)
                mask = odd.u8()
                if mask & 1:
                    e.message = odd.take(16)
                if mask & 2:
                    e.reply_to = odd.take(16)
                e.chunk_index, e.target_seq = odd.varint(), odd.varint()
                extra = odd.block()
            elif e.kind == 5:
                e.message = sent.pop(0)
                seen[seq] = e.message
                if flag & 16:
                    e.target_seq = seq - targets.varint()
                    if flag & 8:
                        seen[e.target_seq] = explicit.pop(0)
                    e.reply_to = seen[e.target_seq]
            elif 6 <= e.kind <= 13:
                distance = targets.varint()
                target = seq - distance if distance else target
                e.target_seq = target
                if flag & 8:
                    seen[target] = explicit.pop(0)
                e.message = seen[target]
                if flag & 16:
                    e.chunk_index = indexes.varint()
                elif e.kind == 6:
                    e.chunk_index = chunks.get(target, 0)
                if e.kind == 6:
                    chunks[target] = e.chunk_index + 1
            length = text_lengths.varint()
            text = texts[text_at:text_at + length]
            text_at += length
            body = (b"\x0a" + put_varint(length) + text if length else b"") + (rest.take(rest_lengths.varint()) if flag & 32 else b"")
            commitment = commitments.pop(0) if flag & 128 else None
            rows.append((e, extra, body, commitment, is_hub_time))
    for left in (kinds, flags, authors, new_authors, times, origin_counters, replica_column, counters, targets, indexes, text_lengths, rest_lengths, odd,
                 rest, directory):
        expect(left.done(), True, "run: a column's end")
    expect((text_at, sent, explicit, commitments), (len(texts), [], [], []), "run: all is used")

    place = milliseconds = counter = 0
    while not order_slices.done():
        mine = per_slice[order_slices.varint()]
        for _ in range(order_counts.varint() + 1):
            e, extra, body, commitment, is_hub_time = rows[mine.pop(0)]
            step = hub_times.varint()
            counter = hub_counters.varint() if step else counter + hub_counters.varint() & 0xFFFF
            milliseconds = milliseconds + step & (1 << 48) - 1
            e.hlc = milliseconds << 16 | counter
            if is_hub_time:
                e.origin_hlc = e.hlc
            name = file["events"][place]
            expect(e.SerializeToString(deterministic=True) + extra, known[name][0], f"run: envelope of {name}")
            if name in file["erased"]:
                expect((body, commitment and commitment.hex()), (b"", file["erased"][name]), f"run: {name}")
            else:
                expect((body, commitment), (known[name][1], None), f"run: body of {name}")
            place += 1
    expect((place, hub_times.done(), hub_counters.done(), order_counts.done()), (events, True, True, True), "run: order's end")


def leaf_path(n):
    return "1" * (n.bit_length() - 1) + "0" + bin(n)[3:]


def descend(seed, path):
    for side in path:
        seed = sha(bytes([int(side)]), seed)
    return seed


def check_seeds():
    file = load("seedtree.json")
    root = bytes.fromhex(file["root"])
    for leaf in file["leaves"]:
        expect(descend(root, leaf_path(leaf["index"] + 1)).hex(), leaf["seed"], f"seed {leaf['index']}")
    for v in file["punctured"]:
        r = Reader(bytes.fromhex(v["encoded"]))
        depth, seed = r.u8(), r.take(32)
        expect(seed, descend(root, "1" * depth), "spine")
        covered, last = set(), 0
        while not r.done():
            level, number, seed = r.u8(), r.be64(), r.take(32)
            first = number << level
            expect(first > last, True, "subtrees ascend")
            last = first + (1 << level) - 1
            # The path of its first leaf, less the steps below it.
            path = leaf_path(first)
            expect(seed, descend(root, path[:len(path) - level]), f"subtree {number} at {level}")
            covered |= {n - 1 for n in range(first, last + 1)} if level < 12 else set()
        expect([i for i in v["forgotten"] if i in covered or i + 1 >= 1 << depth], [], "forgotten leaves")
        expect(set(range((1 << depth) - 1)) - covered, set(v["forgotten"]), "all other leaves")


def unseal(key, value, what):
    expect(struct.unpack("<Q", value[-8:])[0], xxh64(value[:-8], xxh64(key)), what + ": checksum")
    return Reader(value[:-8])


def check_rows():
    file = load("row.json")
    for v in file["rows"]:
        name, key = v["name"], bytes.fromhex(v["key"])
        wanted = b"\1" + sha(v["log"][5:].encode())[:16] if v["log"].startswith("user:") else b"\0" + bytes.fromhex(v["log"].replace("-", ""))
        expect(key, wanted, name + ": key")
        r = unseal(key, bytes.fromhex(v["bytes"]), name)
        log = "user:" + r.text() if key[0] == 1 else uuid(key[1:])
        found = {"name": name, "key": v["key"], "bytes": v["bytes"], "log": log, "number": r.varint(), "seq": r.varint(), "messages": r.varint()}
        found["people"] = []
        for _ in range(r.varint()):
            person, mask = {"user": r.text()}, r.u8()
            for bit, field in enumerate(("joined", "left", "deliveredTo", "deliveredSeq", "readTo", "readSeq")):
                person[field] = r.varint() if mask >> bit & 1 else 0
            found["people"].append(person)
        found["open"] = [{"message": uuid(r.take(16)), "seq": r.varint(), "author": r.varint(), "chunks": r.varint(), "joinedBytes": r.varint()}
                         for _ in range(r.varint())]
        found["slices"], run, following = [], 0, 1
        for _ in range(r.varint()):
            run += r.varint()
            entry = {"run": run, "index": r.varint(), "firstSeq": following + r.varint(), "count": r.varint(), "messages": r.varint()}
            following = entry["firstSeq"] + entry["count"]
            found["slices"].append(entry)
        found["tree"] = [r.take(32).hex() for _ in range(bin(following - 1).count("1"))]
        found["lanes"] = []
        for _ in range(r.varint()):
            lane, last = {"replica": r.varint(), "mark": r.varint(), "answered": []}, 0
            for _ in range(r.varint()):
                last += r.varint()
                code = r.u8()
                lane["answered"].append({"counter": last, "code": "duplicate" if code == 255 else REFUSALS[code], "detail": r.text()})
            found["lanes"].append(lane)
        expect((found, r.done()), (v, True), name)
    r = unseal(b"state", bytes.fromhex(file["state_bytes"]), "state")
    fields = "position frame hlc next_number conversations messages runs raw_bytes compressed_bytes commit key_generation heads_entries".split()
    expect({f: r.u64() for f in fields}, file["state"], "state")
    r = unseal(b"store", bytes.fromhex(file["store_bytes"]), "store")
    expect((r.u32(), uuid(r.take(16)), r.done()), (1, file["store"], True), "store")
    key = file["key_file"]
    raw = bytes.fromhex(key["bytes"])
    expect(struct.unpack("<Q", raw[-8:])[0], xxh64(raw[:-8]), "key file's checksum")
    r = Reader(raw[:-8])
    expect((r.u32(), r.u32(), uuid(r.take(16)), r.take(32).hex()), (0x4B535643, 1, file["store"], key["signing_seed"]), "key file")
    keys = []
    while not r.done():
        keys.append({"generation": r.u64(), "secret": r.take(32).hex()})
    expect(keys, key["keys"], "key file's keys")


def optional_text(r):
    return r.text() if r.u8() else None


def stamp(r):
    return {"time": "%016x" % r.u64(), "replica": uuid(r.take(16)), "counter": r.varint()}


def register(r, name=None):
    found = {"name": name} if name is not None else {}
    value = optional_text(r)
    return found | ({"value": value} if value is not None else {}) | ({"stamp": stamp(r)} if r.u8() else {})


def page(r):
    """A page's plain form; the reader ends with it."""
    found = {"text_bytes": r.varint(), "messages": []}
    seq = time = 0
    for _ in range(r.varint()):
        m = Reader(r.block())
        seq += m.varint()
        time += m.zigzag()
        one = {"id": uuid(m.take(16)), "seq": seq, "sent_at": time}
        flags, role_and_state = m.u8(), m.u8()
        one |= {"is_edited": bool(flags & 1), "is_erased": bool(flags & 2), "role": role_and_state >> 4, "state": role_and_state & 15}
        one |= {"author": m.varint(), "chunks": m.varint(), "text": m.text(), "reactions": []}
        if flags & 4:
            one["reply_to"] = uuid(m.take(16))
        if flags & 8:
            reason = optional_text(m)
            one |= {"finish_reason": reason} if reason is not None else {}
            one |= {"input_tokens": m.varint(), "output_tokens": m.varint()} if m.u8() else {}
        if flags & 16:
            one["interrupted_reason"] = m.text()
        if flags & 32:
            one |= {"edit": stamp(m), "is_edit_erased": m.u8() == 1}
        if flags & 64:
            one["parts"] = m.text()
        if flags & 128:
            one["reactions"] = [{"emoji": m.text(), "author": m.varint(), "is_on": m.u8() == 1, "stamp": stamp(m)} for _ in range(m.varint())]
        expect(m.done(), True, "a message's end")
        found["messages"].append(one)
    expect(r.done(), True, "a page's end")
    return found


def formed(r, forms):
    """A page's plain form, whatever form it is written in."""
    form = r.u8()
    forms.add(form)
    if form == 0:
        return r
    expect(r.u8(), 1, "page: dictionary")
    size = r.varint()
    return Reader(decompress_page(r.data[r.at:], size, page_dictionary()))


def check_projections():
    file = load("projections.json")
    expect((file["projection"], file["version"]), ("conversations", 1), "projection")
    for v in file["records"]:
        key = bytes.fromhex(v["key"])
        expect(key, b"fold." + v["projection"].encode(), "record: key")
        r = unseal(key, bytes.fromhex(v["bytes"]), "record")
        found = {field: {"version": r.u32(), "number": r.u32(), "position": r.u64()} for field in ("live", "building") if r.u8()}
        expect((found, r.done()), ({f: v[f] for f in ("live", "building") if f in v}, True), "record")

    def opened(v, prefix):
        key = bytes.fromhex(v["key"])
        expect(key[0], prefix, "row: prefix")
        return Reader(key[1:]), unseal(key, bytes.fromhex(v["bytes"]), "row")

    forms = set()
    for v in file["conversations"]:
        key, r = opened(v, 0)
        found = {"id": uuid(key.take(16)), "kind": r.u8(), "order": "%016x" % r.u64(), "seq": r.varint(), "title": register(r)}
        found["attributes"] = [register(r, r.text()) for _ in range(r.varint())]
        found["people"] = []
        for _ in range(r.varint()):
            person, mask = {"user": r.text()}, r.u8()
            person |= {"is_in": bool(mask & 1), "delivered_to": r.varint() if mask & 2 else 0, "read_to": r.varint() if mask & 4 else 0}
            person |= {"mark": r.varint(), "live_to_mark": r.varint()} if mask & 8 else {"mark": 0, "live_to_mark": 0}
            found["people"].append(person)
        found |= {"messages": r.varint(), "live": r.varint()}
        if r.u8():
            last = {"id": uuid(r.take(16)), "seq": r.varint(), "author": r.varint()}
            role_and_state = r.u8()
            found["last"] = last | {"role": role_and_state >> 4, "state": role_and_state & 15, "sent_at": r.varint(), "snippet": r.text()}
        found["systems"] = [r.varint() for _ in range(r.varint())]
        found |= {"pages": r.varint(), "stride": r.varint(), "open_first_seq": r.varint(), "fences": []}
        seq = live = 0
        for _ in range(r.varint()):
            seq += r.varint()
            live += r.varint()
            found["fences"].append({"first_seq": seq, "live_before": live})
        found |= {"open": page(formed(r, forms)), "key": v["key"], "bytes": v["bytes"]}
        expect((found, key.done()), (v, True), "conversation " + v["id"])
    for v in file["pages"]:
        key, r = opened(v, 1)
        found = {"conversation": uuid(key.take(16)), "number": key.be64(), "key": v["key"], "bytes": v["bytes"]}
        expect((found | page(formed(r, forms)), key.done()), (v, True), f"page {v['number']}")
    expect(forms, {0, 1}, "forms of pages")
    for v in file["members"]:
        key, r = opened(v, 2)
        expect(key.take(16), sha(v["user"].encode())[:16], "member: user")
        found = {"user": v["user"], "conversation": uuid(key.take(16)), "is_in": r.u8() == 1, "key": v["key"], "bytes": v["bytes"]}
        found["preferences"] = [register(r, r.text()) for _ in range(r.varint())]
        expect((found, key.done(), r.done()), (v, True, True), "member")
    for v in file["streams"]:
        key, r = opened(v, 3)
        found = {"conversation": uuid(key.take(16)), "seq": key.be64(), "message": uuid(r.take(16)), "author": r.text(), "replica": uuid(r.take(16))}
        expect((found | {"key": v["key"], "bytes": v["bytes"]}, key.done(), r.done()), (v, True, True), "stream")
    for kind in ("conversations", "pages", "members", "streams"):
        expect([v["key"] for v in file[kind]], sorted(v["key"] for v in file[kind]), kind + ": order")


def main():
    expect(xxh64(b""), 0xEF46DB3751D8E999, "XXH64 of nothing")
    expect(xxh64(b"Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1, "XXH64 of its known text")
    known = check_events()
    check_frames(known)
    check_wire()
    check_run(known)
    check_seeds()
    check_rows()
    check_projections()
    print(f"docs/vectors: {checks} checks by an independent decoder, none failed")


try:
    main()
except Exception as error:  # Bytes that no parser here can read are a finding like any other.
    sys.exit(f"check-vectors: after {checks} checks: {type(error).__name__}: {error}")
