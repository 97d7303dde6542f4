#!/usr/bin/env bash
# One command on a machine with an NVIDIA GPU: builds the kernels library with CUDA, compares every kernel with the CPU on the
# real device bit for bit, runs compute-sanitizer where there is one, then times the gates. Fetches nothing; needs the packages
# of `deploy/install-dependencies.sh build test` and a CUDA compiler, or a folder build/gpu that was built elsewhere.
#
#   deploy/gpu-check.sh            OUT=FOLDER (default build/gpu) takes report.txt and gates.json
#   deploy/gpu-check.sh --no-gpu   only what needs no device: the build, and the same tests on the host
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

build=build/gpu
out=${OUT:-$build}
tests=(angle_conformance_test task_conformance_test window_conformance_test mask_conformance_test add_conformance_test
  table_conformance_test cuda_backend_test cuda_in_place_test)
with_gpu=1
if [[ ${1-} == --no-gpu ]]; then
  with_gpu=
fi
mkdir -p "$build" "$out"
failed=0

row() { printf '%-40s %s\n' "$1" "$2" | tee -a "$out/report.txt"; }
part() { # name, command…
  local name=$1 start=$SECONDS
  shift
  if "$@" > "$out/${name// /-}.log" 2>&1; then
    row "$name" "ok ($((SECONDS - start)) s)"
  else
    row "$name" "FAILED ($((SECONDS - start)) s), see $out/${name// /-}.log"
    failed=1
  fi
}

: > "$out/report.txt"
if [[ -n $with_gpu ]]; then
  row device "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -1 || echo none)"
fi

# shellcheck disable=SC2317  # part calls it
build_it() {
  cmake -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPHASOR_BUILD_SERVER=OFF -DPHASOR_CUDA=ON --log-level=WARNING &&
    cmake --build "$build" --parallel "$(nproc)" --target "${tests[@]}" cuda_ipc_on_device device_gates
}
if command -v cmake > /dev/null && command -v ninja > /dev/null; then
  part build build_it
elif [[ ! -x $build/tests/task_conformance_test ]]; then
  row build 'FAILED: no cmake or ninja, and nothing built in build/gpu'
  exit 1
fi

# Every usable backend is compared with the reference: on a machine with a device the real one is among them.
for test in "${tests[@]}"; do
  part "$test" "$build/tests/$test"
done
if [[ -n $with_gpu ]]; then
  # A second process owns the memory; its tensor is worked on where it is.
  part 'memory of another process' "$build/tests/cuda_ipc_on_device"
  if command -v compute-sanitizer > /dev/null; then
    part 'compute-sanitizer memcheck' compute-sanitizer --error-exitcode 9 "$build/tests/task_conformance_test"
    part 'compute-sanitizer racecheck' compute-sanitizer --tool racecheck --error-exitcode 9 "$build/tests/task_conformance_test"
  else
    row compute-sanitizer 'not on this machine'
  fi
  if "$build/bin/device_gates" --json="$out/gates.json" > "$out/gates.txt" 2>&1; then
    row gates 'all hold'
  else
    row gates 'missed or failed, below'
    failed=1
  fi
  tee -a "$out/report.txt" < "$out/gates.txt"
fi
exit "$failed"
