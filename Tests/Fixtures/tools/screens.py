#!/usr/bin/env python3
"""Says what every screen shows after a file of events, by the project's model.

    screens.py MODEL-FOLDER events.jsonl    one JSON object a screen: {"timeline": CONVERSATION, "rows": […]} or {"lobby": USER, "rows": […]}
"""
import importlib.util, json, sys

folder, path = sys.argv[1:3]
spec = importlib.util.spec_from_file_location("fold", folder + "/fold.py")
fold = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fold)
with open(path, encoding="utf-8") as file:
    hub, _, _ = fold.fold(file)


def show(what, key, rows):
    print(json.dumps({what: key, "rows": rows}, ensure_ascii=False, sort_keys=True, separators=(",", ":")))


users = set()
for identifier, conversation in hub.conversations.items():
    users |= set(conversation.participants) | conversation.former
    show("timeline", identifier, hub.timeline(identifier))
for user in sorted(users):
    rows = hub.lobby(user)
    for row in rows:
        if row["last_message"]:
            row["last_message"]["snippet"] = row["last_message"]["snippet"][:120]
    show("lobby", user, rows)
