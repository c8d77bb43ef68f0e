#!/bin/sh
# Compares a store with the model, line by line and screen by screen (timelines, lobbies), over many generated files.
#   Tests/differential.sh COUNT [FIRST-SEED] [EVENTS]     needs Python 3 and ../shared/model (or MODEL=folder)
# Every third file has more refused lines, every fifth fewer conversations and more users.
set -eu
count=${1:?how many files}; first=${2:-1}; events=${3:-4000}
here=$(cd "$(dirname "$0")/.." && pwd)
model=${MODEL:-$here/../shared/model}
[ -f "$model/fold.py" ] || model=${MODEL:?the directory of fold.py and generate.py}
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$here"
swift build --build-tests >/dev/null
seed=$first; end=$((first + count))
while [ "$seed" -lt "$end" ]; do
    rm -f "$folder"/*
    # Some at a time, so that the files need little room.
    step=0
    while [ "$seed" -lt "$end" ] && [ "$step" -lt 20 ]; do
        options="--conversations 40 --users 12 --bad 0.05"
        [ $((seed % 3)) -ne 0 ] || options="--conversations 25 --users 5 --bad 0.4"
        [ $((seed % 5)) -ne 0 ] || options="--conversations 4 --users 30 --bad 0.1"
        python3 "$model/generate.py" --seed "$seed" --events "$events" $options >"$folder/seed-$seed.jsonl"
        python3 "$model/fold.py" "$folder/seed-$seed.jsonl" --outcomes >"$folder/seed-$seed.expected.jsonl"
        python3 Tests/Fixtures/tools/screens.py "$model" "$folder/seed-$seed.jsonl" >"$folder/seed-$seed.screens.jsonl"
        seed=$((seed + 1)); step=$((step + 1))
    done
    CONVSTORE_MODEL_FILES="$folder" SWIFT_BACKTRACE=enable=no swift test --skip-build --filter 'DifferentialTests|ScreensTests' >"$folder/log" 2>&1 || {
        grep -E "✘|Fatal|signal" "$folder/log" | cut -c1-600
        echo "differential: failed among the seeds before $seed"
        exit 1
    }
done
echo "differential: $count files of $events lines, seeds $first to $((end - 1)): all outcomes and screens as the model's"
