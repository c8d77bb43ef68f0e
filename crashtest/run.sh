#!/bin/sh
# What would be on disk if the power failed now? Runs the project's own scenario, builds crash states of it (lost, torn and
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
ignore="--ignore lock --ignore archive-lock --ignore archive.new-lock"
scenario=${CRASHTEST_PREBUILT:-$here/.build/release/crashscenario}   # a program built before, to save building
[ -n "${CRASHTEST_PREBUILT:-}" ] || swift build -c release >"$work/build" 2>&1 || { cat "$work/build"; exit 1; }
cc -O2 -Wall -shared -fPIC -o "$work/libcrashsim.so" crashsim.c -ldl
sim() { python3 crashsim.py "$@"; }
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
    left=$mode; seed=${2:-1}; judged=0
    while [ "$left" -gt 0 ]; do
        rm -rf "$work/d"; mkdir "$work/d"
        sim record --so "$work/libcrashsim.so" --dir "$work/d" --trace "$work/t" -- "$scenario" run "$work/d" "$seed" >"$work/record"; grep -q "^rc 0" "$work/record" || { echo "crashtest: the scenario failed with seed $seed"; exit 1; }
        # Of one run at most so many, spread over its whole length; then another run, of the next seed.
        limit=$left; [ "$limit" -le 10000 ] || limit=10000
        sim check --trace "$work/t" --serve "$scenario serve" $ignore --seed "$seed" --limit "$limit" ${CRASHTEST_KEEP:+--keep "$CRASHTEST_KEEP"} | tee "$work/out" || { echo "crashtest: bad states with seed $seed"; exit 1; }
        now=$(sed -n 's/.* states, \([0-9]*\) distinct judged.*/\1/p' "$work/out")
        left=$((left - now)); judged=$((judged + now)); seed=$((seed + 1))
        grep -q ' 0 bad,' "$work/out" || { echo "crashtest: bad states with seed $((seed - 1))"; exit 1; }
        # A few are not worth another run.
        [ $((left * 20)) -gt "$mode" ] || break
    done
    # The controls: acknowledged before the sync, and rows that a projection's position went on without. If nothing is found, the checker proves nothing.
    for control in sync fold; do
        rm -rf "$work/d"; mkdir "$work/d"
        export CRASHSCENARIO_CONTROL=$control
        sim record --so "$work/libcrashsim.so" --dir "$work/d" --trace "$work/t" -- "$scenario" run "$work/d" 1 >/dev/null
        if sim check --trace "$work/t" --serve "$scenario serve" $ignore --limit 2000 --stop 5 --show 1 >"$work/$control"; then
            echo "crashtest: the control '$control' was not caught"; exit 1
        fi
    done
    grep -q "fold of the log (I4)" "$work/fold" || { echo "crashtest: the control 'fold' was found for another reason"; exit 1; }
    echo "crashtest: $judged states, none bad; the controls were caught:"
    for control in sync fold; do echo "  $(grep -m1 BAD "$work/$control" | cut -c1-140)"; done ;;
esac
