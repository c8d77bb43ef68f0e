#!/usr/bin/env bash
# Runs the tests that are built, and ends with the names of those that failed: the end of a log is often all that anybody sees of it.
# Arguments go on to `swift test`. The exit status is its own.
set -uo pipefail
cd "$(dirname "$0")/.."
log=.build/tests.log

swift test --skip-build --disable-xctest "$@" 2>&1 | tee "$log"
status=$?
[ "$status" -eq 0 ] && exit 0

printf '\n== swift test: exit status %s. What failed:\n' "$status"
grep --text -E '✘|^↳|^error:|Fatal error:' "$log" | cut -c 1-600 | tail -n 40
# A runner that died names no test; those it was in the middle of are the suspects.
if ! grep --text -q '✘ Test run with' "$log"; then
    printf '== begun and not ended:\n'
    grep --text -E '^[^ ]+ Test ".*(started\.|passed after|failed after|skipped)' "$log" | awk '
        {
            name = $0
            sub(/^[^ ]+ Test /, "", name)
            isStart = sub(/ started\.$/, "", name)
            sub(/( with [0-9]+ test cases?)? (passed after|failed after|skipped).*/, "", name)
            if (isStart) running[name] = 1; else delete running[name]
        }
        END { for (name in running) print "  " name }'
fi
exit "$status"
