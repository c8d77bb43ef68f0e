#!/usr/bin/env bash
# Imports real conversations and recorded AI streams into a new store, replays one, chats, records an answer, shows lobby and timeline, verifies all;
# serves that store as a hub to two devices, which write while they are offline, and compares what the three show; and says what it did and how fast.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/opt/swift/usr/bin
fixtures=Tests/Fixtures

swift build -c release --product convstore >&2
convstore=$(swift build -c release --show-bin-path)/convstore

work=$(mktemp -d "${TMPDIR:-/tmp}/convstore-demo.XXXXXX")
hub=
# Also after a failure, and if it was interrupted: no hub stays behind.
leave() {
    if [ -n "$hub" ]; then
        kill "$hub" 2>/dev/null || true
        wait "$hub" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM
store=$work/demo.store

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n== %s\n' "$*"; }
# Seconds and thousandths that a command takes, in `took`.
timed() {
    local begin=${EPOCHREALTIME/[.,]/}
    "$@"
    local end=${EPOCHREALTIME/[.,]/}
    took=$((end - begin))
    total=$((total + took))
}
total=0
seconds() { printf '%d.%02d s' $(($1 / 1000000)) $(($1 % 1000000 / 10000)); }
field() { sed -n "s/.*\"$1\" *: *\([0-9.]*\).*/\1/p" | head -n 1; }

say "1. Real conversations, from $(ls $fixtures/dialogue/*.zst | wc -l | tr -d ' ') recorded data sets"
timed "$convstore" import --store "$store" --format dialogue $fixtures/dialogue/*.zst
dialogue=$took

# The recordings whose wire is one of the four that carry text.
streams=()
while IFS= read -r file; do
    [ -f "$fixtures/$file" ] && streams+=("$fixtures/$file")
done < <(sed -n 's/.*"file":"\([^"]*\)".*"wire":"\(openai-chat\|openai-responses\|anthropic-messages\|gemini\)".*/\1/p' $fixtures/streams/index.jsonl)
say "2. Recorded AI answers, ${#streams[@]} streams in the providers' own formats"
timed "$convstore" import --store "$store" --format stream "${streams[@]}"
recorded=$took

say "3. The same files again: nothing changes"
timed "$convstore" import --store "$store" --format dialogue $fixtures/dialogue/*.zst

# A stream's conversation is named by the digest of its file.
one=$fixtures/streams/vercel-ai/anthropic/anthropic-tool-search-deferred-regex.chunks.txt
[ -f "$one" ] || one=${streams[0]}
digest=$(sha256sum "$one" 2>/dev/null || shasum -a 256 "$one")
say "4. One answer, replayed from its chunks at the recorded pace: $(basename "$one")"
"$convstore" replay --store "$store" --conversation "${digest:0:8}-${digest:8:4}" --speed 1

say "5. Some of the conversations"
"$convstore" conversations --store "$store" >"$work/conversations"
head -n 12 "$work/conversations"

say "6. A chat from the shell; the answer comes off a provider's wire (a recorded one), delta by delta"
short=$fixtures/streams/pydantic-ai/anthropic/test_anthropic_web_fetch_tool_stream.sse
[ -f "$short" ] || short=$one
chat=$("$convstore" new --store "$store" --author ada --participant bot --kind assistant --title "Pydantic AI")
"$convstore" send --store "$store" "$chat" --author ada "What is Pydantic AI?" >/dev/null
"$convstore" record --store "$store" "$chat" --author bot <"$short"
"$convstore" react --store "$store" "$chat" @3 👍 --author ada >/dev/null
other=$("$convstore" new --store "$store" --author ada --participant bot --kind assistant --title "Storage engines")
"$convstore" send --store "$store" "$other" --author ada "What is LMDB?" >/dev/null

say "7. Ada's chat list, with what she has not read; and the chat"
"$convstore" lobby --store "$store" --user ada
echo
"$convstore" timeline --store "$store" "$chat"

say "8. Everything read again: numbering, checksums, hashes, the archive's structure; and all events folded anew, to compare with what is shown"
timed "$convstore" verify --store "$store" --projections
verified=$took

say "9. What it takes"
"$convstore" stats --store "$store"
stats=$("$convstore" stats --store "$store" --json)
events=$(field events <<<"$stats")
disk=$(du -sk "$store" | cut -f 1)

say "10. The store becomes a hub; two people who share conversations get it onto a device each"
"$convstore" serve --store "$store" --listen 127.0.0.1:0 --insecure-any-user --log-level error >"$work/serve" 2>"$work/serve.errors" &
hub=$!
url=
for _ in $(seq 600); do
    url=$(sed -n 's/^listening on //p' "$work/serve")
    [ -z "$url" ] || break
    kill -0 "$hub" 2>/dev/null || break
    sleep 0.1
done
[ -n "$url" ] || { cat "$work/serve.errors" >&2; exit 1; }
echo "$url"
people=(agent_1 agent_2)
sync() { "$convstore" sync --store "$work/$1" --server "$url" --user "$1"; }
for person in "${people[@]}"; do
    printf '%s  ' "$person"
    timed sync "$person"
done

say "11. Both write while nobody connects them: in one conversation at once, and in a new one"
# The conversations that a store shows to a user, newest first.
chats() { "$convstore" lobby --store "$1" --user "$2" --limit 100000 --json | sed -n 's/.*"conversation_id" *: *"\([^"]*\)","kind".*/\1/p'; }
chats "$work/agent_1" agent_1 >"$work/chats"
shared=$(head -n 1 "$work/chats")
second=$(sed -n 2p "$work/chats")
"$convstore" send --store "$work/agent_1" "$shared" --author agent_1 "Written in a tunnel." >/dev/null
"$convstore" react --store "$work/agent_1" "$shared" @2 👍 --author agent_1 >/dev/null
made=$("$convstore" new --store "$work/agent_1" --author agent_1 --participant agent_2 --title "Made offline")
"$convstore" send --store "$work/agent_1" "$made" --author agent_1 "Nobody knows of this conversation yet." >/dev/null
draft=$("$convstore" send --store "$work/agent_2" "$shared" --author agent_2 "Written on a plain." --json | sed -n 's/.*"message_id" *: *"\([^"]*\)".*/\1/p')
"$convstore" edit --store "$work/agent_2" "$shared" "$draft" --author agent_2 "Written on a plane." >/dev/null
"$convstore" read --store "$work/agent_2" "$second" --author agent_2 >/dev/null
for person in "${people[@]}"; do
    echo "$person's outbox:"
    "$convstore" outbox --store "$work/$person" | sed 's/^/    /'
done
echo
"$convstore" timeline --store "$work/agent_2" "$shared" --limit 3

say "12. They sync, one after the other, and the first once more"
for person in agent_1 agent_2 agent_1; do
    printf '%s  ' "$person"
    sync "$person"
done

say "13. Hub and devices show the same"
same() {
    local what=$1 first=$2 other
    shift 2
    for other in "$@"; do
        cmp "$first" "$other" >&2 || { echo "NOT the same: $what" >&2; exit 1; }
    done
    echo "the same: $what"
}
heads() { "$convstore" audit head --store "$1" | sort; }
heads "$store" >"$work/hub.heads"
for person in "${people[@]}"; do
    chats "$store" "$person" >"$work/chats"
    heads "$work/$person" >"$work/$person.heads"
    # Of all that the hub has, what this user may see.
    grep -F -f "$work/chats" "$work/hub.heads" >"$work/hub.$person.heads"
    same "the heads of $person's $(wc -l <"$work/chats" | tr -d ' ') conversations" "$work/hub.$person.heads" "$work/$person.heads"
    for place in "$store" "$work/$person"; do
        "$convstore" lobby --store "$place" --user "$person" --limit 100000 --json >"$work/$(basename "$place").lobby"
    done
    same "$person's lobby, with what is unread" "$work/demo.store.lobby" "$work/$person.lobby"
done
count=0
for chat in "$made" $(head -n 12 "$work/chats"); do
    for place in "$store" "$work/agent_1" "$work/agent_2"; do
        "$convstore" timeline --store "$place" "$chat" --limit 100000 --json >"$work/$(basename "$place").timeline"
    done
    cmp "$work/demo.store.timeline" "$work/agent_1.timeline" >&2 && cmp "$work/demo.store.timeline" "$work/agent_2.timeline" >&2 ||
        { echo "NOT the same: the timeline of $chat" >&2; exit 1; }
    count=$((count + 1))
done
echo "the same: the timelines of $count conversations, on hub and both devices"
"$convstore" verify --store "$work/agent_1" --projections
echo
"$convstore" timeline --store "$work/agent_1" "$shared" --limit 3
kill "$hub"
wait "$hub"
hub=

rate() { echo $(($1 * 1000000 / ($2 > 0 ? $2 : 1))); }
say "Done"
echo "$events events of $(field conversations <<<"$stats") conversations, durable in $disk KiB on disk."
echo "Conversations imported in $(seconds $dialogue), parsing and syncing included: $(rate "$events" $dialogue) events/s; streams in $(seconds $recorded);"
echo "all verified, projections too, in $(seconds $verified): $(rate "$events" $verified) events/s. (Wall clock, on $(uname -m) with $(getconf _NPROCESSORS_ONLN) cores.)"
