#!/usr/bin/env python3
"""Makes the benchmark's events: real conversations and recorded AI streams, interleaved as a live server receives them.

    dataset.py DATA OUT [--events 1000000] [--conversations N/100] [--active 400] [--seed 1]

DATA holds `dialogue/*.jsonl.zst` (or .jsonl) and `streams/` (shapes: ../shared/data/README.md). OUT is JSONL as docs/EVENTS.md
has it, `-` for standard output. The same arguments over the same data give the same bytes.

The mix: 35 % plain messages; 55 % chunks of streamed answers; the rest creations, openings and ends of streams (one answer in
twelve is interrupted) and receipts. Texts are taken in their order, each once: a machine's turns are streamed, in pieces as a
tokenizer cuts them; the recorded streams keep their own deltas; what answers are still missing is made of the messages of
one held-out file (topical-chat). When the data is too small for N, all of it is taken again under other conversation,
message and user ids. A line on standard error says how often that was. Only python3's standard library and the zstd program.
"""
import argparse, datetime, glob, heapq, json, os, random, re, subprocess, sys, uuid

MACHINES = {"assistant", "system", "SYSTEM"}
GENERIC = {"USER", "user", "agent_1", "agent_2"}
HELD_OUT = "topical-chat"
INTERRUPTED = 1 / 12
PIECE = re.compile(r" ?[A-Za-z]{1,8}|[A-Za-z]+|\d{1,3}| ?[^\w\s]{1,3}|\s+|[^\x00-\x7f]{1,2}|.", re.DOTALL)
quote = json.JSONEncoder(ensure_ascii=False).encode


def rows(path):
    with open(path, "rb") as file:
        if path.endswith(".zst"):
            text = subprocess.run(["zstd", "-dcq"], check=True, stdin=file, stdout=subprocess.PIPE).stdout
        else:
            text = file.read()
    return map(json.loads, filter(None, text.decode().split("\n")))


def dialogues(folder):
    """name of file -> [(title, [row, ...]), ...]"""
    found = {}
    for path in sorted(glob.glob(folder + "/dialogue/*.jsonl*")):
        conversations = found.setdefault(os.path.basename(path), [])
        for row in rows(path):
            if not conversations or conversations[-1][0] != row["conv"]:
                conversations.append((row["conv"], []))
            conversations[-1][1].append(row)
    return found


def delta(payload):
    """The visible text of one payload of the four chat wires."""
    if payload.get("type") == "response.output_text.delta":
        return payload.get("delta")
    if payload.get("type") == "content_block_delta":
        return payload["delta"].get("text") if payload["delta"].get("type") == "text_delta" else None
    if payload.get("choices"):
        choice = payload["choices"][0]
        return (choice.get("delta") or {}).get("content") if choice.get("index", 0) == 0 else None
    if payload.get("candidates"):
        parts = (payload["candidates"][0].get("content") or {}).get("parts") or []
        return "".join(part.get("text", "") for part in parts if part.get("thought") is not True)
    return None


def recorded(folder):
    """The recorded streams, each the list of its text deltas; one-piece answers are no streams."""
    answers = []
    for path in sorted(glob.glob(folder + "/streams/*/**/*", recursive=True)):
        if not path.endswith((".sse", ".txt")):
            continue
        with open(path, encoding="utf-8", newline="") as file:
            lines = re.split("\r\n|\n|\r", file.read())
        deltas = []
        for line in lines:
            line = line[5:].lstrip(" ") if line.startswith("data:") else line
            if not line.startswith("{"):
                continue
            try:
                text = delta(json.loads(line))
            except ValueError:
                continue
            if isinstance(text, str) and text:
                deltas.append(text)
        if len(deltas) > 1:
            answers.append(deltas)
    return answers


def pieces(text):
    return PIECE.findall(text) or [""]


class Answers:
    """Whole answers as lists of pieces: the recorded ones, then held-out messages joined to the recorded ones' lengths."""

    def __init__(self, streams, texts):
        self.streams, self.texts = streams, texts
        self.lengths = [len(deltas) for deltas in streams] or [50]
        self.taken, self.text, self.passes = 0, 0, 1

    def next(self):
        self.taken += 1
        if self.taken <= len(self.streams):
            return self.streams[self.taken - 1]
        if not self.texts:
            self.passes = 1 + (self.taken - 1) // len(self.streams)
            return self.streams[(self.taken - 1) % len(self.streams)]
        want, answer = self.lengths[self.taken % len(self.lengths)], []
        while len(answer) < want:
            answer += pieces(self.texts[self.text] + "\n")
            self.text += 1
            if self.text == len(self.texts):
                self.text, self.passes = 0, self.passes + 1
        return answer


def plan(data, total, count, chance):
    """[(title, [(speaker, role, pieces or None, text, reply_to), ...]), ...]: what each conversation will say."""
    files = dialogues(data)
    held = next((name for name in files if HELD_OUT in name), None) if len(files) > 1 else None
    texts = [row["text"] for _, turns in files.get(held, []) for row in turns if row["text"]]
    source = [conversation for name, all in sorted(files.items()) if name != held for conversation in all]
    chance.shuffle(source)
    answers = Answers(recorded(data), texts)
    plain_left, chunks_left, passes, at = total * 35 // 100, total * 55 // 100, 1, 0
    plans, longest = [], max(20, total * 35 // 100 // 50)
    while len(plans) < count or plain_left > 0:
        title, turns = source[at]
        at += 1
        if at == len(source):
            at, passes = 0, passes + 1
        own, place = [], {}
        for row in turns[:longest]:
            speaker, role, parts = row["speaker"], "user", None
            if row.get("kind") == "system":
                speaker, role = "system", "system"
            elif speaker in MACHINES:
                speaker, role = "assistant", "assistant"
                parts = pieces(row["text"]) if chunks_left > 0 else None
            if parts is None and plain_left == 0:
                break
            chunks_left, plain_left = (chunks_left - len(parts), plain_left) if parts else (chunks_left, plain_left - 1)
            if speaker in GENERIC or speaker == "":
                speaker = "user-%05d" % (len(plans) * 7 % 4000 + ("agent_2" == speaker))
            elif passes > 1 and role == "user":
                speaker = speaker[:200] + "-%d" % passes
            place[row["turn"]] = len(own)
            own.append((speaker, role, parts, row["text"], place.get(row.get("reply_to"))))
        if len(plans) < count:
            plans.append((title, own))
        elif own:       # more plain messages are needed than `count` conversations of the data hold: they go on with another's
            title, before = plans[len(plans) - 1 - at % count]
            before += [(s, r, p, t, None if reply is None else reply + len(before)) for s, r, p, t, reply in own]
    # Missing answers come where a person wrote last, most into conversations with a machine.
    order = [turns for _, turns in plans if any(turn[1] == "assistant" for turn in turns)] or [turns for _, turns in plans]
    number = 0
    while chunks_left > 0:
        turns = order[number % len(order)]
        number += 1
        answer = answers.next()[:max(2, chunks_left)]
        turns.append(("assistant", "assistant", answer, "".join(answer), None))
        chunks_left -= len(answer)
    return plans, passes, answers


def script(title, turns, identifier, chance, receipts):
    """Yields a conversation's events as (seconds to wait, line without its time); `receipts` is asked after each message."""
    speakers = list(dict.fromkeys(turn[0] for turn in turns)) or ["user-00000"]
    people, asked = speakers[:1000], speakers[0]
    kind = "assistant" if "assistant" in people else "direct" if len(people) <= 2 else "group"
    def line(type, author, rest):
        return '{"type":"%s","conversation_id":"%s","author":%s,"at":"%%s"%s}' % (type, identifier, quote(author).replace("%", "%%"), rest.replace("%", "%%"))
    yield 0, line("conversation.created", people[0], ',"kind":"%s","title":%s,"participants":[%s]' % (kind, quote(title), ",".join(map(quote, people))))
    pause, ids = max(1.0, 3000 / (len(turns) + 1)), []
    for author, role, parts, text, reply in turns:
        message = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        ids.append(message)
        more = ',"reply_to":"%s"' % ids[reply] if reply is not None else ""
        if parts is None:
            yield chance.expovariate(1 / pause), line("message.sent", author, ',"message_id":"%s","role":"%s","text":%s%s' % (message, role, quote(text), more))
        else:
            yield chance.uniform(0.3, 1.5), line("message.sent", author, ',"message_id":"%s","role":"%s","text":"","streaming":true%s' % (message, role, more))
            for index, piece in enumerate(parts):
                yield chance.uniform(0.01, 0.06), line("chunk.appended", author, ',"message_id":"%s","index":%d,"text":%s' % (message, index, quote(piece)))
            if chance.random() < INTERRUPTED:
                stopper = asked if chance.random() < 0.7 else author
                yield 0.1, line("message.interrupted", stopper, ',"message_id":"%s","reason":"%s"' % (message, "error" if stopper == author else "stopped"))
            else:
                usage = ',"usage":{"input_tokens":%d,"output_tokens":%d}' % (chance.randrange(20, 4000), len(parts)) if chance.random() < 0.5 else ""
                yield 0.02, line("message.completed", author, ',"message_id":"%s","finish_reason":"stop"%s' % (message, usage))
        if role == "user":
            asked = author
        others = [user for user in people[:8] if user != author]
        if others and author in people and receipts():
            yield chance.uniform(0.2, 5), line("receipt.read" if chance.random() < 0.6 else "receipt.delivered", chance.choice(others), ',"up_to":"%s"' % message)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data")
    options.add_argument("out")
    options.add_argument("--events", type=int, default=1_000_000)
    options.add_argument("--conversations", type=int)
    options.add_argument("--active", type=int, default=400)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    total, chance = chosen.events, random.Random(chosen.seed)
    count = chosen.conversations or max(1, total // 100)
    plans, passes, answers = plan(chosen.data, total, count, chance)

    streams = sum(1 for _, turns in plans for turn in turns if turn[2] is not None)
    chunks = sum(len(turn[2]) for _, turns in plans for turn in turns if turn[2] is not None)
    plain = sum(len(turns) for _, turns in plans) - streams
    left, asked = max(0, total - len(plans) - plain - chunks - 2 * streams), 0
    slots = sum(1 for _, turns in plans for turn in turns if len({other[0] for other in turns[:50]}) > 1)

    def receipts():             # spreads `left` receipts evenly over the messages
        nonlocal left, asked
        asked += 1
        if left < chance.random() * max(1, slots - asked + 1):
            return False
        left -= 1
        return True

    start = datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.timezone.utc)
    waiting = enumerate(plans)
    heap, counts, written, texts = [], {}, 0, 0

    def admit(now):
        for number, (title, turns) in waiting:
            own = random.Random(chosen.seed * 1_000_003 + number)
            events = script(title, turns, uuid.UUID(int=own.getrandbits(128), version=4), own, receipts)
            heapq.heappush(heap, (now, number, next(events)[1], events))
            return

    for place in range(chosen.active):
        admit(place * 2.5)
    out = sys.stdout if chosen.out == "-" else open(chosen.out, "w", encoding="utf-8", newline="")
    while heap and written < total:
        now, number, line, events = heapq.heappop(heap)
        at = start + datetime.timedelta(milliseconds=int(now * 1000))
        out.write(line % (at.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (at.microsecond // 1000)) + "\n")
        kind = line[9:line.index('"', 9)]
        kind += " (streamed)" if kind == "message.sent" and '"text":"","streaming":true' in line else ""
        counts[kind] = counts.get(kind, 0) + 1
        written += 1
        following = next(events, None)
        if following is None:
            admit(now + 1)
        else:
            heapq.heappush(heap, (now + following[0], number, following[1], events))
    if out is not sys.stdout:
        out.close()
    for kind, number in sorted(counts.items(), key=lambda item: -item[1]):
        print("%9d  %5.2f %%  %s" % (number, 100 * number / written, kind), file=sys.stderr)
    print("%9d events in %d conversations; dialogue taken %d time(s), answers' texts %d time(s)"
          % (written, counts["conversation.created"], passes, answers.passes), file=sys.stderr)


if __name__ == "__main__":
    main()
