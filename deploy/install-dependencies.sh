#!/usr/bin/env bash
# Installs the system packages that the named groups need, from the distribution's own archive.
#
#   deploy/install-dependencies.sh build test
#
# Debian 12 and Ubuntu 24.04. Silent, without network and within a moment when everything is there. As root, or through
# sudo where that works without asking or there is a terminal to ask on; otherwise it prints what is missing and fails.
set -euo pipefail

# "a|b" means: either will do; a is installed where the archive has it, else b.
packages_of() {
  case "$1" in
    build) echo g++ cmake ninja-build ccache pkg-config git ca-certificates python3 python3-venv libgrpc++-dev \
      protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev prometheus-cpp-dev libhwy-dev libspdlog-dev \
      libcli11-dev libisal-dev rapidjson-dev libboost-dev libssl-dev zlib1g-dev ;;
    test) echo libgtest-dev libgmock-dev libbenchmark-dev libmpfr-dev libgmp-dev python3-venv ca-certificates ;;
    check) echo "clang-format-19|clang-format-18" shellcheck cmake git python3 python3-venv ca-certificates ;;
    tidy) echo "clang-tidy-19|clang-tidy-18" ;;
    sanitize) echo g++ ;;  # the runtimes come with GCC
    fuzz) echo "clang-19|clang-18" "libclang-rt-19-dev|libclang-rt-18-dev" ;;
    load) echo python3 python3-venv ca-certificates protobuf-compiler ;;  # Go itself: deploy/install-tools.sh
    peers) echo python3 python3-venv python3-dev ca-certificates ;;  # torch.compile wants Python.h
    image) echo buildah debootstrap ca-certificates ;;
    *) return 1 ;;
  esac
}

groups='build test check tidy sanitize fuzz load peers image'
if [[ $# -eq 0 || $1 == -h || $1 == --help ]]; then
  echo "usage: ${0##*/} GROUP...   groups: $groups" >&2
  exit 2
fi

wanted=()
for group in "$@"; do
  if ! list=$(packages_of "$group"); then
    echo "${0##*/}: unknown group '$group'; there are: $groups" >&2
    exit 2
  fi
  read -ra names <<< "$list"
  wanted+=("${names[@]}")
done

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  echo "${0##*/}: this is not a Debian or Ubuntu system. Install the counterparts of: ${wanted[*]}" >&2
  exit 1
fi

declare -A installed=()
while read -r status package; do
  if [[ $status == installed ]]; then
    installed[$package]=1
  fi
done <<< "$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n')"

missing=()
for choice in "${wanted[@]}"; do
  found=
  for name in ${choice//|/ }; do
    if [[ -n ${installed[$name]-} ]]; then
      found=1
    fi
  done
  if [[ -z $found && " ${missing[*]-} " != *" $choice "* ]]; then
    missing+=("$choice")
  fi
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

as_root=()
if [[ $EUID -ne 0 ]]; then
  if command -v sudo > /dev/null && { sudo -n true 2> /dev/null || [[ -t 0 ]]; }; then
    as_root=(sudo)
  else
    echo "${0##*/}: these packages are missing and may not be installed by this user: ${missing[*]%%|*}" >&2
    echo "as root: apt-get update && apt-get install --no-install-recommends ${missing[*]%%|*}" >&2
    exit 1
  fi
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"
}

echo "installing: ${missing[*]%%|*}" >&2
apt update -qq
chosen=()
for choice in "${missing[@]}"; do
  pick=
  for name in ${choice//|/ }; do
    if [[ -z $pick ]] && apt-cache show --no-all-versions "$name" > /dev/null 2>&1; then
      pick=$name
    fi
  done
  if [[ -z $pick ]]; then
    echo "${0##*/}: this system's archive has no package ${choice//|/ or }" >&2
    exit 1
  fi
  chosen+=("$pick")
done
# dpkg's progress says nothing that helps: shown only when the installation fails.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! apt install -qq --yes --no-install-recommends "${chosen[@]}" > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
