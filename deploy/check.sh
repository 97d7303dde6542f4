#!/usr/bin/env bash
# `make check`: what needs no build. Every check runs; the exit code is 0 only when all hold.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
tools=${PHASOR_TOOLS_DIR:-build/_tools}
failed=()

check() {
  local name=$1
  shift
  if "$@"; then
    echo "ok      $name"
  else
    echo "FAILED  $name"
    failed+=("$name")
  fi
}

# Tracked files, and new ones that git does not ignore.
files() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
    [[ -f $file ]] && echo "$file"
  done
}

check_format() {
  local clang_format
  clang_format=$(type -P clang-format-19 || type -P clang-format-18) || return 1
  files '*.h' '*.cc' | xargs -r "$clang_format" --dry-run -Werror
}

# buf wants every import inside its workspace: one is laid out under build/ with the contract and the google/rpc protos.
buf_workspace() {
  local workspace=build/buf googleapis
  rm -rf "$workspace"
  mkdir -p "$workspace/googleapis/google/rpc"
  cp -r proto "$workspace/proto"
  googleapis=$(cmake -P deploy/cmake/print_googleapis.cmake 2>&1) || { echo "$googleapis"; return 1; }
  googleapis=$(tail -n 1 <<< "$googleapis")  # fetching may have said something before
  cp "$googleapis"/google/rpc/{status,error_details}.proto "$workspace/googleapis/google/rpc/" &&
    cp deploy/buf.yaml "$workspace/buf.yaml"
}

check_buf() {
  buf_workspace && (cd build/buf && "$PWD/../../$tools/bin/buf" lint proto)
}

check_shell() {
  # .ci/run has no suffix.
  { files '*.sh'; echo .ci/run; } | xargs shellcheck
}

check_dockerfile() {
  # DL3008, versions of apt packages: the base image's release pins them.
  "$tools/bin/hadolint" --ignore DL3008 Dockerfile
}

# The habit is 300 lines; half as much again and more is no oversight.
check_sizes() {
  files '*.h' '*.cc' | xargs wc -l | awk '
    $2 != "total" && $1 > 300 {print $2 ": " $1 " lines, rather 300"}
    $2 != "total" && $1 > 450 {bad = 1}
    END {exit bad}'
}

check_leftovers() {
  ! files '*.h' '*.cc' '*.proto' '*.py' '*.sh' '*.txt' '*.cmake' Makefile Dockerfile .ci/run | grep -v '^deploy/check.sh$' |
    xargs grep -nE '\b(TODO|FIXME|XXX|HACK)\b'
}

check format check_format
check layering python3 tests/layering_test.py .
check 'layering self-test' python3 tests/layering_test.py --self-test
check 'contract (buf lint)' check_buf
check 'shell scripts' check_shell
check Dockerfile check_dockerfile
check 'file sizes' check_sizes
check leftovers check_leftovers
if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
