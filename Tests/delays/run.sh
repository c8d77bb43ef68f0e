#!/usr/bin/env bash
# Runs the tests that are built under delays at random (delays.c), a target at a time: `make delays ROUNDS=N`, or
# Tests/delays/run.sh [--seed N] [--rounds N] [--share PER_THOUSAND] [--ms LONGEST] [TARGET ...]. Tests of many thousand steps, which would take hours, are left out.
# Ends with a line for each run, and exits with 1 if one failed. The seed says which delays there are, not when the threads meet them: a failure may need several runs.
set -uo pipefail
cd "$(dirname "$0")/../.."

seed=1 rounds=1 share= longest=
while [ $# -gt 1 ]; do
    case $1 in
        --seed) seed=$2 ;;
        --rounds) rounds=$2 ;;
        --share) share=$2 ;;
        --ms) longest=$2 ;;
        *) break ;;
    esac
    shift 2
done
targets=("$@")
[ $# -gt 0 ] || targets=(EventLogTests InterchangeTests ProjectionsTests ConversationStoreTests ReplicationTests StoreTestingTests CLITests ChatServerTests)

place=.build/delays
mkdir -p $place
clang -O1 -Wall -shared -fPIC -o $place/delays.so Tests/delays/delays.c -ldl -lpthread || exit 1
tests=$(swift build --show-bin-path)/convstorePackageTests.xctest
kinds=("2 1000" "5 300" "10 150")
status=0
summary=
for ((round = 0; round < rounds; round++)); do
    for target in "${targets[@]}"; do
        read -r of_thousand ms <<<"${kinds[$((seed % 3))]}"
        log=$place/$target.$seed.log
        DELAYS_SEED=$seed DELAYS_SHARE=${share:-$of_thousand} DELAYS_MS=${longest:-$ms} LD_PRELOAD=$PWD/$place/delays.so \
            SWIFT_BACKTRACE=enable=no SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=4 \
            timeout 1500 "$tests" --testing-library swift-testing --filter "^$target\." \
            --skip "A planted bug is found|what was acknowledged is there after a crash at any call|a hub stands whatever|whatever a hub sends" >"$log" 2>&1
        result=$?
        [ $result -eq 0 ] || status=1
        line="$target, seed $seed, ${share:-$of_thousand} of a thousand up to ${longest:-$ms} ms: exit $result, $(tail -n 1 "$log")"
        echo "$line"
        [ $result -eq 0 ] || grep --text -A 3 '✘' "$log" | cut -c 1-600
        summary+="$line"$'\n'
        seed=$((seed + 1))
    done
done
printf '\n%s' "$summary"
exit $status
