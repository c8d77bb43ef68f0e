#!/usr/bin/env python3
"""Records every prefix of every recorded stream, cut behind each event, and compares what was kept with a parser of its own.

    Tests/record-cuts.py CONVSTORE [FOLDER [PART PARTS]]

FOLDER holds streams/index.jsonl and its files (default: Tests/Fixtures); of PARTS parts only PART is done. Each cut is a run of the program: some 30 a second.
"""
import json, os, re, subprocess, sys, tempfile

program = os.path.abspath(sys.argv[1])
folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "Fixtures")
part, parts = (int(sys.argv[3]), int(sys.argv[4])) if len(sys.argv) > 4 else (0, 1)
LINE_END = rb"\r\n|\n|\r"


def text(payload):
    """A payload's delta; empty if it has none."""
    kind, event = payload.get("type"), payload.get("event_type")
    choice = next((c for c in payload.get("choices") or [] if c.get("index") in (0, None)), {})
    if payload.get("object") == "text_completion":
        return choice.get("text") or ""
    if event:  # Gemini Interactions
        delta = payload.get("delta") or {}
        return delta.get("text", "") if event == "step.delta" and delta.get("type") == "text" else ""
    if isinstance(kind, str) and kind.startswith("session."):  # OpenAI Realtime
        return payload.get("delta", "") if kind == "session.output_transcript.delta" else ""
    if "setupComplete" in payload or "serverContent" in payload:  # Gemini Live
        content = payload.get("serverContent") or {}
        spoken = (content.get("outputTranscription") or {}).get("text", "")
        return "".join(p.get("text", "") for p in (content.get("modelTurn") or {}).get("parts", [])) + spoken
    if isinstance(kind, str) and kind.startswith("response."):  # OpenAI Responses
        return payload.get("delta", "") if kind == "response.output_text.delta" else ""
    if kind == "content_block_delta":  # Anthropic Messages
        return payload["delta"].get("text", "") if payload["delta"].get("type") == "text_delta" else ""
    if "candidates" in payload:  # Gemini
        first = (payload["candidates"] or [{}])[0]
        found = (first.get("content") or {}).get("parts") or []
        return "".join(p.get("text", "") for p in found if p.get("thought") is not True)
    content = (choice.get("delta") or {}).get("content") or ""  # OpenAI chat chunks
    return "".join(p.get("text", "") for p in content if p.get("type") == "text") if isinstance(content, list) else content


def run(*arguments, **options):
    return subprocess.run([program, *arguments], capture_output=True, **options)


def check(entry, content, store):
    """How many cuts were compared, and what was wrong with them."""
    is_sse = any(line.startswith(b"data:") for line in re.split(LINE_END, content))
    ends = [m.end() for m in re.finditer(rb"(?:%s){2,}" % LINE_END if is_sse else LINE_END, content)]
    if not ends or ends[-1] < len(content):
        ends.append(len(content))
    deltas, start = [], 0
    for end in ends:
        event, start = content[start:end], end
        lines = [line[5:].removeprefix(b" ") for line in re.split(LINE_END, event) if line.startswith(b"data:")]
        try:
            payload = json.loads(b"\n".join(lines) if is_sse else event)
        except ValueError:
            payload = None
        deltas.append(text(payload) if isinstance(payload, dict) else "")
    chat = run("new", "--store", store, "--author", "bot", "--kind", "assistant", text=True).stdout.strip()
    expected, faults = [], []
    for cut, end in enumerate(ends, 1):
        done = run("record", "--store", store, chat, "--author", "bot", "--json", input=content[:end])
        if done.returncode == 65:
            continue  # Nothing of a known wire has come yet.
        if done.returncode:
            faults.append(f"cut {cut}: exit {done.returncode}: {done.stderr[:200]}")
            continue
        kept = [delta for delta in deltas[:cut] if delta]
        expected.append((cut, "".join(kept), len(kept), json.loads(done.stdout)["message_id"]))
    lines = run("timeline", "--store", store, chat, "--limit", "99999", "--json", text=True).stdout.splitlines()
    rows = {row.get("message_id"): row for row in map(json.loads, lines)}
    for cut, kept, chunks, message in expected:
        row = rows[message]
        if row["text"] != kept or row["chunks"] != chunks or row["state"] not in ("complete", "interrupted"):
            faults.append(f"cut {cut}: {len(row['text'])} characters in {row['chunks']} chunks, {row['state']}; {len(kept)} in {chunks}")
    if entry["text"] and rows[expected[-1][3]]["text"] != entry["text"]:
        faults.append("the whole text is not its index's")
    return len(expected), faults


files = cuts = bad = 0
with tempfile.TemporaryDirectory() as scratch:
    for number, line in enumerate(open(os.path.join(folder, "streams/index.jsonl"))):
        if number % parts != part:
            continue
        entry = json.loads(line)
        compared, faults = check(entry, open(os.path.join(folder, entry["file"]), "rb").read(), os.path.join(scratch, "store"))
        files, cuts, bad = files + 1, cuts + compared, bad + len(faults)
        for fault in faults:
            print(f"{entry['file']}: {fault}")
print(f"{files} files, {cuts} cuts, {bad} bad")
sys.exit(1 if bad else 0)
