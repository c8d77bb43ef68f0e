#!/usr/bin/env bash
# Imports real conversations and recorded AI streams into a new store, replays one, chats, records an answer, shows lobby and timeline, verifies all,
# and says what it did and how fast.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/opt/swift/usr/bin
fixtures=Tests/Fixtures

swift build -c release --product convstore >&2
convstore=$(swift build -c release --show-bin-path)/convstore

work=$(mktemp -d "${TMPDIR:-/tmp}/convstore-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
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

rate() { echo $(($1 * 1000000 / ($2 > 0 ? $2 : 1))); }
say "Done"
echo "$events events of $(field conversations <<<"$stats") conversations, durable in $disk KiB on disk."
echo "Conversations imported in $(seconds $dialogue), parsing and syncing included: $(rate "$events" $dialogue) events/s; streams in $(seconds $recorded);"
echo "all verified, projections too, in $(seconds $verified): $(rate "$events" $verified) events/s. (Wall clock, on $(uname -m) with $(getconf _NPROCESSORS_ONLN) cores.)"
