#!/usr/bin/env python3
"""Makes Sources/Projections/Conversations/PageDictionary.swift: the zstd dictionary that pages of messages are compressed with.

    scripts/page-dictionary.py NUMBER

It is trained on the fixtures' conversations, whose licences allow it (Tests/Fixtures/README.md), cut into pages as the store cuts them.
A dictionary that has been released is never changed: a new one gets a new number, and the old one stays readable.
"""
import base64, glob, json, os, random, struct, subprocess, sys, tempfile

BYTES = 64 << 10
MESSAGES, TEXT = 16, 8 << 10
root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def pages():
    random.seed(1)
    for path in sorted(glob.glob(root + "/Tests/Fixtures/dialogue/*.zst")):
        conversations = {}
        for line in subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout.splitlines():
            row = json.loads(line)
            conversations.setdefault(row["conv"], []).append(row.get("text") or "")
        for texts in conversations.values():
            page, count, size = b"", 0, 0
            for text in texts:
                text = text.encode()
                body = random.randbytes(16) + bytes([0, random.choice([1, 0x11])]) + varint(random.randrange(3)) + b"\0" + varint(len(text)) + text
                head = varint(random.randrange(1, 4)) + varint(random.randrange(1 << 17))
                page += varint(len(head + body)) + head + body
                count, size = count + 1, size + len(text)
                if count == MESSAGES or size >= TEXT:
                    yield varint(size) + varint(count) + varint(random.randrange(500)) + varint(1_700_000_000_000) + page
                    page, count, size = b"", 0, 0


def main():
    number = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for index, page in enumerate(pages()):
            names.append(f"{folder}/{index}")
            with open(names[-1], "wb") as file:
                file.write(page)
        print(len(names), "pages")
        subprocess.run(["zstd", "-q", "-f", "--train", "-r", folder, "-o", folder + ".dictionary", f"--maxdict={BYTES}", f"--dictID={number}"], check=True)
        with open(folder + ".dictionary", "rb") as file:
            text = base64.b64encode(file.read()).decode()
        os.remove(folder + ".dictionary")
    lines = [text[at:at + 140] for at in range(0, len(text), 140)]
    with open(root + "/Sources/Projections/Conversations/PageDictionary.swift", "w") as file:
        file.write("internal import Foundation\n\n// swift-format-ignore-file\n// Made by scripts/page-dictionary.py from the fixtures' conversations, under their licences.\n\n")
        file.write(f"/// Dictionary {number}.\nenum PageDictionary {{\n    static let bytes = [UInt8](Data(base64Encoded: \"\"\"\n")
        file.write("".join(f"        {line}\\\n" for line in lines[:-1]) + f"        {lines[-1]}\n        \"\"\")!)\n}}\n")


main()
