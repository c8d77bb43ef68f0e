#!/bin/sh
# What would be on disk if the power failed now? Runs the project's own scenarios (four in five states are a store's, the others a device's beside a hub), builds crash states of it (lost, torn and
# reordered writes), and has each one judged: crashtest/README.md.
#   crashtest/run.sh BUDGET [FIRST-SEED]     states to judge; exit 1 if any is bad, or if the control finds nothing
#   crashtest/run.sh kill [STEP]             kill -9 before every STEP-th change
#   crashtest/run.sh faults [STEP]           every STEP-th write and sync fails: EIO, ENOSPC, short
set -eu
here=$(cd "$(dirname "$0")" && pwd); cd "$here"
export SWIFT_BACKTRACE=enable=no
mode=${1:?a number of states, or kill, or faults}
# In memory where it can be: what is judged is what was written, not this disk.
base=/tmp; [ ! -d /dev/shm ] || base=/dev/shm
work=$(mktemp -d "$base/crashtest.XXXXXX"); trap 'rm -rf "$work"' EXIT
ignore="--ignore lock --ignore archive-lock --ignore archive.new-lock --ignore sync-lock --ignore sync.new-lock"
scenario=${CRASHTEST_PREBUILT:-$here/.build/release/crashscenario}   # a program built before, to save building
# SwiftPM does not notice files that came to, or left, the package above: it plans anew without its plan.
rm -f .build/*.yaml
[ -n "${CRASHTEST_PREBUILT:-}" ] || swift build -c release >"$work/build" 2>&1 || { cat "$work/build"; exit 1; }
cc -O2 -Wall -shared -fPIC -o "$work/libcrashsim.so" crashsim.c -ldl
sim() { python3 crashsim.py "$@"; }
# Records one life from nothing: run or run-device, and its seed. A device's hub stays beside it.
record() { rm -rf "$work/d" "$work/d-hub"; mkdir "$work/d"; sim record --so "$work/libcrashsim.so" --dir "$work/d" --trace "$work/t" -- "$scenario" "$1" "$work/d" "$2" >"$work/record"; }
serve_store="$scenario serve"; serve_device="$scenario serve-device $work/d-hub"
# Judges so many states of a life, from a seed on: judge LIFE SERVE BUDGET SEED
judge() {
    life=$1; serve=$2; budget=$3; left=$3; seed=$4
    while [ "$left" -gt 0 ]; do
        record "$life" "$seed"; grep -q "^rc 0" "$work/record" || { echo "crashtest: the scenario ($life) failed with seed $seed"; exit 1; }
        # Of one run at most so many, spread over its whole length; then another run, of the next seed.
        limit=$left; [ "$limit" -le 10000 ] || limit=10000
        sim check --trace "$work/t" --serve "$serve" $ignore --seed "$seed" --limit "$limit" ${CRASHTEST_KEEP:+--keep "$CRASHTEST_KEEP"} | tee "$work/out" || { echo "crashtest: bad states with seed $seed ($life)"; exit 1; }
        now=$(sed -n 's/.* states, \([0-9]*\) distinct judged.*/\1/p' "$work/out")
        left=$((left - now)); judged=$((judged + now)); seed=$((seed + 1))
        grep -q ' 0 bad,' "$work/out" || { echo "crashtest: bad states with seed $((seed - 1)) ($life)"; exit 1; }
        # A few are not worth another run.
        [ $((left * 20)) -gt "$budget" ] || break
    done
}
# A run with a planted fault, which must be found: control NAME LIFE SERVE
control() {
    CRASHSCENARIO_CONTROL=$1 record "$2" 1
    if CRASHSCENARIO_CONTROL=$1 sim check --trace "$work/t" --serve "$3" $ignore --limit 2000 --stop 5 --show 1 >"$work/$2-$1"; then
        echo "crashtest: the control '$1' ($2) was not caught"; exit 1
    fi
}
case $mode in
kill)
    sim kill --so "$work/libcrashsim.so" --dir "$work/d" --step "${2:-1}" --verify "$scenario verify {dir} {acks} {n}" -- "$scenario" run "$work/d" ;;
faults)
    status=0
    for fault in write:EIO write:ENOSPC write:SHORT write:EIO:sticky write:ENOSPC:sticky sync:EIO sync:EIO:sticky sync:ENOSPC trunc:EIO open:EMFILE; do
        printf '%s: ' "$fault"
        sim faults --so "$work/libcrashsim.so" --dir "$work/d" --fail "$fault" --step "${2:-1}" --exits 0,3 \
            --verify "$scenario verify {dir} {acks} {n}" -- "$scenario" run "$work/d" || status=1
    done
    exit $status ;;
*)
    judged=0; device=$((mode / 5))
    judge run "$serve_store" $((mode - device)) "${2:-1}"
    judge run-device "$serve_device" "$device" "${2:-1}"
    # The controls: acknowledged before the sync, rows that a projection's position went on without, and held before it has come. If nothing is found, the
    # checker proves nothing.
    control sync run "$serve_store"; control fold run "$serve_store"; control sync run-device "$serve_device"
    grep -q "fold of the log (I4)" "$work/run-fold" || { echo "crashtest: the control 'fold' was found for another reason"; exit 1; }
    echo "crashtest: $judged states, none bad; the controls were caught:"
    for control in run-sync run-fold run-device-sync; do echo "  $(grep -m1 BAD "$work/$control" | cut -c1-140)"; done ;;
esac
