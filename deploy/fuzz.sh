#!/usr/bin/env bash
# Runs each program of build/fuzz/fuzzers for so many seconds. New inputs stay in build/fuzz/corpus, crashes in
# build/fuzz/crashes; the repository's corpus is only read.
set -euo pipefail
cd "$(dirname "$0")/../build/fuzz"
seconds=${1:-60}
mkdir -p crashes
ran=0
failed=()
for list in fuzzers/*.corpus; do
  [[ -e $list ]] || break
  name=$(basename "$list" .corpus)
  mkdir -p "corpus/$name"
  echo "== $name, $seconds s"
  ran=$((ran + 1))
  if ! "fuzzers/$name" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=25 -print_final_stats=1 \
    -artifact_prefix="crashes/$name-" "corpus/$name" "$(< "$list")" > "$name.log" 2>&1; then
    failed+=("$name")
    tail -40 "$name.log"
  fi
  grep -E 'number_of_executed_units|new_units_added' "$name.log" || true
done
if [[ $ran -eq 0 ]]; then
  echo 'no fuzzer was built' >&2
  exit 1
fi
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]}; inputs under build/fuzz/crashes" >&2
  exit 1
fi
echo "$ran fuzzers, no finding"
