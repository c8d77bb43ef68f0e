#!/usr/bin/env python3
"""Says what the model (fold.py) makes of each line's form: the expected results of the parsing tests.

    parse_verdicts.py MODEL_FOLDER cases > hostile.jsonl          the hand-made lines below, with their verdicts
    parse_verdicts.py MODEL_FOLDER file EVENTS > EVENTS.parse     one verdict a refused line of a JSONL file

A verdict: {"line" (number) or "base64" (the bytes), "code", "detail"} of a refusal, or "code": null with what was read.
Bytes that are not UTF-8 are malformed: the model reads text files and cannot say so itself. Run with Python 3.11.
"""
import base64, json, random, sys

sys.path.insert(0, sys.argv[1])
import fold

CID, MID = "0a1b2c3d-0000-4000-8000-00000000000a", "0A1B2C3D-0000-4000-8000-00000000000B"


def verdict(raw):
    """What take() makes of a line's form; what depends on other lines is left out."""
    try:
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise fold.Rejected("too_large", "line") if len(raw) > fold.MAX_EVENT else fold.Rejected("malformed", "JSON")
        fold.require(len(line.rstrip("\n").encode("utf-8")) <= fold.MAX_EVENT, "too_large", "line")
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            raise fold.Rejected("malformed", "JSON")
        hub = fold.Hub(1 << 60)
        try:
            hub.take(event)
        except fold.Rejected as reason:
            if reason.code not in ("malformed", "too_large"):   # the form was sound; the conversation is not known
                pass
            else:
                raise
        result = {"code": None, "type": event["type"], "at": fold.a_time(event), "author": event["author"]}
        if event["type"] == "conversation.created":
            result["title"], result["participants"] = event.get("title"), event["participants"]
        else:
            parsed = fold.Hub.parse(event["type"], event)
            if event["type"] == "message.sent":
                parsed["parts"] = None if event.get("parts") is None else json.dumps(event["parts"], sort_keys=True, separators=(",", ":"))
            if event["type"] == "custom":
                parsed["payload"] = base64.b64decode(event["payload"], validate=True).hex()
            result["parsed"] = parsed
        return result
    except fold.Rejected as reason:
        return {"code": reason.code, "detail": reason.detail}


def with_field(base, **fields):
    return json.dumps(base | fields)


def cases():
    common = {"conversation_id": CID, "author": "ann", "at": "2024-02-29T23:59:59.999Z"}
    sent = {"type": "message.sent", **common, "message_id": MID, "role": "user", "text": "hello"}
    created = {"type": "conversation.created", **common, "kind": "group", "participants": ["ann", "bob"]}
    updated = {"type": "conversation.updated", **common}
    chunk = {"type": "chunk.appended", **common, "message_id": MID, "index": 0, "text": "x"}
    completed = {"type": "message.completed", **common, "message_id": MID}
    reaction = {"type": "reaction.set", **common, "message_id": MID, "emoji": "\U0001F44D", "on": True}
    preference = {"type": "preference.set", **common, "key": "pinned", "value": "true"}
    custom = {"type": "custom", **common, "name": "app.poll", "payload": "YQ=="}
    receipt = {"type": "receipt.read", **common, "up_to": MID}

    def raw(base, field, token):
        """A line whose last member has this text for its value."""
        return json.dumps({k: v for k, v in base.items() if k != field})[:-1] + ', "%s": %s}' % (field, token)

    for base in (sent, created, chunk, completed, reaction, preference, custom, receipt):
        yield json.dumps(base)
        for field in base:
            yield json.dumps({k: v for k, v in base.items() if k != field})
            for token in ("null", "17", '""', "[]", "{}", "true", '"\\ud83d"', '"\\u0000"'):
                yield raw(base, field, token)
    # The JSON text itself.
    whole = json.dumps(sent)
    for text in ("", " ", "\t", "{", "}", "[]", "null", "1", '"x"', "{}", "{} {}", whole + whole, whole + "x", whole + ",", "\ufeff" + whole,
                 "\u00a0" + whole, "\x0b" + whole, " \t" + whole + " \t", whole[:-1], whole[:-1] + ",}", "{," + whole[1:], whole.replace('": ', '" '),
                 whole.replace('"', "'"), "[" + whole + "]", whole.replace(",", ",,", 1), "// x\n" + whole):
        yield text
    # Tokens, in a member that nobody reads and in parts.
    for token in ("NaN", "Infinity", "-Infinity", "+1", "01", "-01", "-0", "-", "1.", ".5", "1.5", "1e5", "1E+5", "1e-5", "1e", "1e+", "0x10", "1_000", "nan", "True",
                  "tru", "truex", "nul", "-NaN", "--1", "1.0e400", "-1e400", "1e-400", "0.1", "1.00", "100000000000000000000000", "-1e0", "1" * 4300, "1" * 4301,
                  "-" + "1" * 4300, "-" + "1" * 4301, "1" * 5000 + ".0", "123456789012345678", "1e16", "1e15", "9999999999999998.0", "1e22", "1e21", "0.0001", "0.00001", "1e-7",
                  "5e-324", "1.7976931348623157e308", "2.5", "-0.0", "0.1e1", "123456.789e3", "0e5", "0E-5", "1" * 400 + ".5e-380",
                  '"a', '"\\', '"\\"', '"\\x41"', '"\\u12"', '"\\u123G"', '"\\uD83D\\uDE42"', '"\\ud83d\\u0041"', '"\\ud83d\\ud83d\\ude42"', '"\\ude42\\ud83d"', '"\\ud83d\\u12"',
                  '"\\/\\b\\f\\n\\r\\t\\\\\\""', '"\x7f\u0080\u2028"', '"\x01"', '"a\tb"', '"\x1f"', "[1,]", "[,1]", "[1 2]", "[1,2", "{1:2}", '{"a"}', '{"a":}', '{"a":1,}', '{"a":1 "b":2}',
                  '{"a":1,"a":2}', '{"b":1,"a":{"d":[],"c":{}}}', '{"\\u0061":1,"a":2,"b":3}', '{"\\ud800":1,"\\uffff":2,"\U00010000":3,"\\ud800\\udc00":4}', "[ ]", "{ }", "[ [ ] , { } ]",
                  '{"":1}', "[\"\u00e9\", \"e\u0301\", \"\U0001F642\"]", '{"z":[{"y":1,"x":[1.0,1,1.50]}],"a":null}', '[true,false,null,NaN,Infinity,-Infinity]',
                  '{"k":1,"j":2,"k":{"a":1}}'):
        yield raw(sent, "ignored", token)
        yield raw(sent, "parts", "[" + token + "]")
    for depth in (1, 2, 63, 64, 65, 128, 500, 950, 1100, 100_000):
        for left, right in (("[", "]"), ('{"a":', "}")):
            yield raw(sent, "ignored", left * depth + "1" + right * depth)
        yield raw(sent, "ignored", "[" * depth)
    yield raw(sent, "parts", "[" * 900 + "]" * 900)
    # Names twice, and written with escapes.
    yield '{"type": "custom", ' + whole[1:]
    yield whole[:-1] + ', "type": "custom"}'
    yield whole[:-1] + ', "t\\u0079pe": "custom"}'
    yield whole[:-1] + ', "text": "last"}'
    yield whole[:-1] + ', "text": null}'
    yield whole.replace('"type"', '"\\u0074ype"').replace('"message.sent"', '"message\\u002esent"')
    yield whole.replace(CID, "\\u0030" + CID[1:])
    # Identifiers and times.
    for token in (CID.upper(), CID[:-1], CID + "0", "{" + CID + "}", CID.replace("-", ""), CID.replace("a", "g"), "\u0661" + CID[1:], " " + CID, "urn:uuid:" + CID,
                  CID[:8] + "_" + CID[9:], CID + "\n"):
        yield with_field(sent, conversation_id=token)
        yield with_field(sent, reply_to=token)
    for token in ("1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59.999999999Z", "2023-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
                  "2100-02-29T00:00:00Z", "2024-04-31T00:00:00Z", "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z", "2024-01-00T00:00:00Z", "2024-01-01T24:00:00Z",
                  "2024-01-01T23:60:00Z", "2024-12-31T23:59:60Z", "2024-12-31T23:59:61Z", "2024-01-01T00:00:00.Z", "2024-01-01T00:00:00.1Z", "2024-01-01T00:00:00.0019Z",
                  "2024-01-01T00:00:00.1234567890Z", "2024-01-01T00:00:00", "2024-01-01T00:00:00z", "2024-01-01t00:00:00Z", "2024-01-01 00:00:00Z", "2024-01-01T00:00:00+00:00",
                  "2024-1-1T00:00:00Z", "0000-01-01T00:00:00Z", "12024-01-01T00:00:00Z", "2024-01-01T00:00:00Z\n", "\u0662024-01-01T00:00:00Z", "2024-01-01T00:00:00,5Z", ""):
        yield with_field(sent, at=token)
    # Users and sizes.
    for user in ("a" * 255, "a" * 256, "\u00e9" * 127, "\u00e9" * 128, "\U0001F642" * 63, "\U0001F642" * 64, " ", "a\nb", "\x00"):
        yield with_field(sent, author=user)
        yield with_field(created, participants=[user])
        yield with_field({"type": "participant.joined", **common}, user=user)
    yield with_field(created, participants=["u%d" % i for i in range(1023)])
    yield with_field(created, participants=["u%d" % i for i in range(1024)])
    yield with_field(created, participants=["ann"] + ["u%d" % i for i in range(1023)])
    yield with_field(created, participants=["ann"] * 3000)
    yield with_field(created, participants=["ann", 1])
    yield with_field(created, participants=["ann", ["u"]])
    yield raw(created, "participants", '["ann", "\\ud800"]')
    for kind in ("direct", "group", "assistant", "Direct", "x"):
        yield with_field(created, kind=kind)
    for role in ("user", "assistant", "system", "tool", "User", "users"):
        yield with_field(sent, role=role)
    for size in (1 << 20, (1 << 20) + 1):
        yield with_field(sent, text="x" * size)
        yield with_field(chunk, text="x" * size)
        yield with_field(completed, finish_reason="x" * size)
        yield with_field(created, title="x" * size)
    yield json.dumps(sent | {"text": "\u6771" * 349_525}, ensure_ascii=False)
    yield json.dumps(sent | {"text": "\u6771" * 349_526}, ensure_ascii=False)
    yield json.dumps(sent | {"text": "\u6771" * 349_526})
    padding = (4 << 20) - len(json.dumps(sent | {"ignored": ""}))
    yield json.dumps(sent | {"ignored": "x" * padding})
    yield json.dumps(sent | {"ignored": "x" * (padding + 1)})
    for index in ("0", "-0", "1", "-1", "4294967295", "4294967296", "99999999999999999999999999", "1.0", "1e0", "true", "false", '"1"', "null", "NaN"):
        yield raw(chunk, "index", index)
    for streaming in ("true", "false", "0", "1", '"true"', "null"):
        yield raw(sent, "streaming", streaming)
        yield raw(reaction, "on", streaming)
    for emoji in ("x" * 64, "x" * 65, "\U0001F44D" * 16, "\U0001F44D" * 17):
        yield with_field(reaction, emoji=emoji)
        yield with_field(preference, key=emoji)
    # Updates.
    for attributes in ({}, {"a": None}, {"a": "b"}, {"b": "1", "a": "2"}, {"a": 1}, {"a": ["x"]}, {"": "x"}, {"n" * 64: "x"}, {"n" * 65: "x"}, {"a": "x" * 4096}, {"a": "x" * 4097},
                       {"a%d" % i: "x" for i in range(64)}, {"a%d" % i: "x" for i in range(65)}, {"\ud800": "x"}, {"a": "\ud800"}, {"e\u0301": "1", "\u00e9": "2"}, {"a": "x" * 4097, "": "y"},
                       {"": "y", "a": "x" * 4097}):
        yield with_field(updated, attributes=attributes)
        yield with_field(updated, attributes=attributes, title="t")
        yield with_field(updated, attributes=attributes, title=None)
    yield with_field(updated, title="")
    yield raw(updated, "attributes", '{"a":"1","a":"2"}')
    yield raw(updated, "attributes", '{"a":7,"a":"2"}')
    yield raw(updated, "attributes", '{"a":"2","b":"3","a":7}')
    yield raw(updated, "attributes", "null")
    # Base64 as b64decode(validate=True) reads it.
    for payload in ("", "=", "==", "YQ==", "YQ=", "YQ", "Y", "YWI=", "YWI", "YWJj", "YWJj=", "YWJj==", "YWJj===", "YWJj====", "YR==", "YQ==YQ==", "YQ==\n", "Y Q==", "YQ=Q", "YWJjY===", "-_-_", "+/+/",
                    "YWJj=YWJj", "YQ===", "\u00e9", "YWJjZGVmZ2hpamtsbW5vcA=="):
        yield with_field(custom, payload=payload)
    for usage in ("null", "{}", "7", '{"input_tokens":1}', '{"input_tokens":1,"output_tokens":2}', '{"input_tokens":-1,"output_tokens":2}', '{"input_tokens":1.0,"output_tokens":2}'):
        yield raw(completed, "usage", usage)
    for request in ("null", "7", '"r-1"', '"\\ud800"'):
        yield raw(sent, "request_id", request)
    # Bytes that are not UTF-8, in strings and beside them.
    for bad in (b"\x80", b"\xc0\x80", b"\xc1\xbf", b"\xc3", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xef\xbf", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xfe",
                b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xef\xbb\xbf", b"\xc2\x80"):
        encoded = whole.encode()
        yield encoded.replace(b"hello", b"he" + bad + b"llo")
        yield encoded.replace(b"hello", b"long enough for a word of eight" + bad)
        yield encoded + bad
        yield encoded.replace(b'"ann"', b'"' + bad + b'"')
    # Cut off everywhere, and one byte changed.
    for end in range(0, len(whole), 3):
        yield whole[:end]
    r = random.Random(20)
    for _ in range(120):
        spoilt = bytearray(whole.encode())
        spoilt[r.randrange(len(spoilt))] = r.choice(b'"\\{}[]:,0 \x00\x1f\x7f\xffa')
        yield bytes(spoilt)


def shown(verdict):
    return json.dumps(verdict)


def main():
    if sys.argv[2] == "cases":
        for case in cases():
            line = case if isinstance(case, bytes) else case.encode("utf-8")
            if line and line.decode("utf-8", "replace").strip() == "":
                continue    # a blank line is skipped before it is read
            if len(line) <= 20_000:
                print(shown({"base64": base64.b64encode(line).decode()} | verdict(line)))
            else:               # long lines repeat one byte or character: kept short by telling where
                run, start, unit = longest_run(line)
                rest = {"head": line[:start], "unit": unit, "tail": line[start + run * len(unit):]}
                found = verdict(line)
                if found["code"] is None:
                    found = {"code": None}
                print(shown({k: base64.b64encode(v).decode() for k, v in rest.items()} | {"count": run} | found))
    else:
        with open(sys.argv[3], encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                found = verdict(line.encode("utf-8"))
                if line.strip() and found["code"]:
                    print(shown({"line": number} | found))


def longest_run(line):
    best = (0, 0, b"x")
    for unit in (b"x", "\u6771".encode(), b"\\u6771", b"[", b'{"a":', b"]", b'"ann", '):
        at = line.find(unit * 8)
        if at >= 0:
            count = 0
            while line.startswith(unit, at + count * len(unit)):
                count += 1
            if count * len(unit) > best[0] * len(best[2]):
                best = (count, at, unit)
    return best


main()
