#!/usr/bin/env bash
# clang-tidy over the given .cc files, or over those that differ from main. Wants build/compile_commands.json and, for
# files that include generated headers, a build.
set -euo pipefail
cd "$(dirname "$0")/.."
tidy=$(type -P clang-tidy-19 || type -P clang-tidy-18)
files=("$@")
if [[ ${#files[@]} -eq 0 ]]; then
  base=$(git merge-base HEAD origin/main 2> /dev/null || git rev-parse 'HEAD~1')
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- '*.cc')
fi
if [[ ${#files[@]} -eq 0 ]]; then
  echo 'no source differs from main; FILES="kernels/core/dtype.cc …" names some'
  exit 0
fi
printf '%s\0' "${files[@]}" | xargs -0 -n1 -P"$(nproc)" "$tidy" -p build --quiet --warnings-as-errors='*'
