#!/bin/sh
# Fuzzes each decoder for so many seconds, from and into fuzz/corpus/TARGET; exit 1 with the input's path if one falls.
#   fuzz/run.sh SECONDS [TARGET…]        targets: event run frame journal line stream wire
# Needs a toolchain with libFuzzer (Linux's has it).
set -eu
here=$(cd "$(dirname "$0")" && pwd); cd "$here"
seconds=${1:?seconds for each target}; shift
export SWIFT_BACKTRACE=enable=no
flags="-c release -Xswiftc -sanitize=fuzzer -Xswiftc -enable-testing -Xswiftc -parse-as-library"
# SwiftPM does not notice files that came to, or left, the package above: it plans anew without its plan.
rm -f .build/*.yaml
[ -n "${FUZZ_PREBUILT:-}" ] || swift build $flags >.build.log 2>&1 || { tail -40 .build.log; exit 1; }
rm -f .build.log
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
for target in ${*:-event run frame journal line stream wire}; do
    mkdir -p "corpus/$target" "$work/$target"
    # What is found goes into a folder of its own; the corpus takes the few inputs that add to it (`-merge=1`).
    FUZZ_TARGET=$target FUZZ_SCRATCH=$work nice -n 10 "${FUZZ_PREBUILT:-.build/release/fuzz}" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len=8192 \
        -verbosity=0 -print_final_stats=1 -artifact_prefix="$here/found-$target-" "$work/$target" "corpus/$target" >"$work/log" 2>&1 || {
        tail -30 "$work/log"; echo "fuzz: $target fell"; exit 1
    }
    echo "fuzz: $target clean, $(sed -n 's/.*number_of_executed_units: *//p' "$work/log") inputs in $seconds s"
    if [ -n "${FUZZ_KEEP:-}" ]; then FUZZ_TARGET=$target FUZZ_SCRATCH=$work "${FUZZ_PREBUILT:-.build/release/fuzz}" -merge=1 -max_len=2048 "corpus/$target" "$work/$target" >/dev/null 2>&1; fi
done
