#!/bin/sh
# Runs the comparisons with other databases, and what is measured of the store alone: `make bench`, or
# benchmarks/run.sh [--quick] [append|state|streams|open|stall|beside] [its options]. Options without a name are `append`'s; with nothing named, all run.
# benchmarks/run.sh devices [resume|first-screen|latency|fleet|crowd [its options]]: a hub and its devices; without a name all five.
set -eu
cd "$(dirname "$0")"

quick=no
if [ "${1:-}" = --quick ]; then
    quick=yes
    shift
fi

what="append state streams open stall beside"
case "${1:-}" in
    append | state | streams | open | stall | beside)
        what=$1
        shift
        ;;
    ?*) what=append ;;
esac

missing=
for package in librocksdb-dev libsqlite3-dev liblmdb-dev libzstd-dev nettle-dev pkg-config zstd python3; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' && continue
    [ "$package" = python3 ] && command -v python3 >/dev/null && continue
    missing="$missing $package"
done
if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null; then
        echo "benchmarks: missing:$missing (their names in Debian); install them and run again" >&2
        exit 69
    fi
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -q
    # shellcheck disable=SC2086  # The names are words.
    $sudo apt-get install -y -q $missing
fi

if [ "${1:-}" = devices ]; then
    shift
    (cd .. && swift build -c release --product convstore >&2)
    # SwiftPM does not notice files that came to, or left, the package above: it plans anew without its plan.
    rm -f .build/*.yaml
    swift build -c release --product devices >&2
    # Stands for the program and its place: they come first on each command line.
    run() {
        measured=$1
        shift
        echo "devices $measured $*" >&2
        $first "$(swift build -c release --show-bin-path)/devices" "$measured" --convstore "$(cd .. && swift build -c release --show-bin-path)/convstore" \
            --directory .work/devices "$@"
    }
    first=
    if command -v chrt >/dev/null && chrt -f 1 true 2>/dev/null; then first="chrt -f 1"; fi
    mkdir -p .work
    if [ $# -gt 0 ]; then
        run "$@"
    else
        run resume
        run resume --events 1000000
        run first-screen
        run latency
        # Each device has a disk of its own, and this machine has one: theirs is memory.
        run fleet --device-directory /dev/shm/convstore-devices
        # Threads of one fixed priority would not take turns.
        first=
        run crowd
    fi
    exit
fi

data=../Tests/Fixtures
[ -d ../../shared/data ] && data=../../shared/data
if ! [ -d $data/dialogue ]; then
    echo "benchmarks: no conversations in $data/dialogue (shapes: ../shared/data/README.md)" >&2
    exit 66
fi
if [ $quick = yes ]; then
    events=300000
    compared="--preload 250000 --rounds 3"
    streamed="--rounds 1 --seconds 5"
else
    events=1000000
    compared="--preload 900000 --rounds 5"
    streamed="--rounds 3 --seconds 20"
fi

mkdir -p .work
input=.work/events-$events.jsonl
if [ ! -s "$input" ] || [ dataset.py -nt "$input" ]; then
    python3 dataset.py "$data" "$input.part" --events $events
    mv "$input.part" "$input"
fi

swift build -c release --product peers >&2
rm -rf .work/stores
# Before all other processes where that is allowed: on a busy machine the comparison is else one of luck.
first=
if command -v chrt >/dev/null && chrt -f 1 true 2>/dev/null; then first="chrt -f 1"; fi
peers=$(swift build -c release --show-bin-path)/peers
for comparison in $what; do
    report=.work/peers-$comparison
    # shellcheck disable=SC2086  # The options are words.
    case $comparison in
        append | state)
            [ "$comparison" = state ] || report=.work/peers
            $first "$peers" "$comparison" --input "$input" --directory .work/stores --json $report.json $compared "$@" | tee $report.md
            echo "These figures as JSON: benchmarks/$report.json" >&2
            ;;
        streams) $first "$peers" streams --input "$input" --directory .work/stores $streamed "$@" | tee $report.md ;;
        stall | beside) $first "$peers" "$comparison" --input "$input" --directory .work/stores "$@" | tee $report.md ;;
        open)
            # Each step in a process of its own: what is measured is a process that did nothing else.
            $first "$peers" open --store .work/stores --fill "$input"
            "$peers" open --store .work/stores --list 100 >.work/active
            for _ in 1 2 3; do $first "$peers" open --store .work/stores --conversations .work/active "$@"; done | tee $report.md
            rm -rf .work/stores
            ;;
    esac
done
