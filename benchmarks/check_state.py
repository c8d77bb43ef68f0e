#!/usr/bin/env python3
"""Compares the state that the peers keep with fold.py's, so that none wins by keeping less.

    check_state.py PEERS MODEL [--seeds 1 2 3] [--events 5000]

PEERS is the built program, MODEL the folder with fold.py and generate.py. For each seed, events of all kinds are generated, the ones
that fold.py accepts go to each peer in commits of 1, 7 and 256, and once more as a build from the event rows; then every timeline and
every lobby is compared, field by field. Exits with 1 at the first difference.
"""
import argparse, json, os, subprocess, sys, tempfile

ENGINES = ("sqlite", "rocksdb")
WAYS = (["--batch", "1"], ["--batch", "7"], ["--batch", "256"], ["--way", "build"])


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def expected(hub):
    for cid in hub.conversations:
        rows = hub.timeline(cid)
        for row in rows:
            row["reactions"] = [[emoji, user] for emoji, users in row["reactions"].items() for user in users]
        yield ("conversation", cid), without_nulls(rows)
    users = {user for c in hub.conversations.values() for user in [*c.participants, *c.former]}
    for user in users:
        rows = hub.lobby(user)
        for row in rows:
            row["preferences"] = [[key, value] for key, value in row["preferences"].items()]
            if row["last_message"]:
                row["last_message"]["snippet"] = row["last_message"]["snippet"][:120]
        yield ("user", user), without_nulls(rows)


def shown(peers, engine, path, way):
    with tempfile.TemporaryDirectory() as directory:
        command = [peers, "dump", "--engine", engine, "--input", path, "--directory", directory + "/store", *way]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    for line in output.decode().split("\n"):
        if line:
            row = json.loads(line)
            if "conversation" in row:
                yield ("conversation", row["conversation"]), without_nulls(row["timeline"])
            else:
                yield ("user", row["user"]), without_nulls(row["lobby"])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("peers")
    options.add_argument("model")
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--events", type=int, default=5000)
    chosen = options.parse_args()
    sys.dont_write_bytecode = True
    sys.path.insert(0, chosen.model)
    import fold

    for seed in chosen.seeds:
        command = [sys.executable, os.path.join(chosen.model, "generate.py"), "--seed", str(seed), "--events", str(chosen.events)]
        lines = [line for line in subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode().split("\n") if line.strip()]
        hub, outcomes, counts = fold.fold(lines)
        refused = {outcome["line"] for outcome in outcomes}
        want = dict(expected(hub))
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.writelines(line + "\n" for number, line in enumerate(lines, 1) if number not in refused)
            file.flush()
            for engine in ENGINES:
                for way in (*WAYS, ["--way", "replay"]) if engine == "sqlite" else WAYS:
                    have = dict(shown(os.path.abspath(chosen.peers), engine, file.name, way))
                    for key in want.keys() | have.keys():
                        for at, (a, b) in enumerate(zip(want.get(key, []), have.get(key, []))):
                            if a != b:
                                sys.exit(f"seed {seed}, {engine} {way}: {key}, row {at}:\n  {a}\n  {b}")
                        if len(want.get(key, [])) != len(have.get(key, [])):
                            sys.exit(f"seed {seed}, {engine} {way}: {key}: {len(want.get(key, []))} rows, not {len(have.get(key, []))}")
        print(f"seed {seed}: {counts['accepted']} events, {counts['conversations']} conversations, {counts['messages']} messages: the same")


if __name__ == "__main__":
    main()
