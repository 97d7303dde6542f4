#!/usr/bin/env bash
# One command on a machine with an NVIDIA GPU, at most BUDGET seconds (470): builds the kernels and their tests, asks whether
# the driver tells how large another process's memory is, compares every kernel with the reference on the real device bit for
# bit, times the gates, then runs compute-sanitizer and profilers where there are any. Fetches nothing. What fails, hangs or is
# missing is a line of the table, and the rest goes on.
#
#   deploy/gpu-check.sh                 builds in build/gpu, or else takes programs that were packed: build/gpu-programs.tar.gz
#   deploy/gpu-check.sh --no-gpu        only what needs no device: the build, and the same tests on the host
#   deploy/gpu-check.sh --pack[=DIR]    builds, and leaves the programs in DIR (build/gpu-programs) and DIR.tar.gz with the libraries
#                                       that they need, for a machine that has a GPU and not the packages to build
#   deploy/gpu-check.sh --programs=DIR  runs those and builds nothing
#
# OUT=FOLDER (build/gpu-report) takes report.txt, report.json (device, steps, gates), gates.json and logs.tar.gz; BUILD=FOLDER
# (build/gpu) is where it builds; ARCHITECTURES=90-real for fewer than all, which makes programs a fifth as large. Building needs
# the packages of `deploy/install-dependencies.sh build test` and a CUDA compiler.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

build=${BUILD:-build/gpu}
packed=build/gpu-programs
out=${OUT:-build/gpu-report}
# Tests that have kernels, and tests of what is left to the CPU: that way must give the same bits, too.
on_device=(angle_conformance_test task_conformance_test window_conformance_test mask_conformance_test add_conformance_test
  table_conformance_test)
left_to_cpu=(score_conformance_test score_cases_conformance_test polar_conformance_test)
carried=("${on_device[@]}" "${left_to_cpu[@]}" cuda_ipc_on_device device_gates)
on_host=(cuda_launch_test cuda_rotate_test cuda_angle_test cuda_angle_window_test cuda_toeplitz_test cuda_window_test cuda_mask_test
  cuda_tables_test cuda_add_test cuda_convert16_test cuda_backend_test cuda_in_place_test device_report_test)

mode=gpu
programs=
for argument in "$@"; do
  case "$argument" in
    --no-gpu) mode=host ;;
    --pack) mode=pack ;;
    --pack=*) mode=pack packed=${argument#*=} ;;
    --programs=*) programs=${argument#*=} ;;
    *)
      sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
      exit 2
      ;;
  esac
done
budget=${BUDGET:-$([[ $mode == gpu ]] && echo 470 || echo 7200)}
deadline=$((SECONDS + budget))
failed=0
logs=build/gpu-logs
rm -rf "$logs"
mkdir -p "$out" "$logs" || exit 1
rm -f "$out"/{report.txt,report.json,gates.json,logs.tar.gz}
device=
exclusive= # how a device is set that serves one process at a time

# ---- The report.

# As a JSON string; what is not printable ASCII is left out.
json() {
  local text
  text=$(tr -cd '\40-\176' <<< "$1")
  text=${text//\\/\\\\}
  printf '"%s"' "${text//\"/\\\"}"
}

# Lines of JSON as one list.
list() { printf '[%s]' "$(paste -sd , "$1" 2> /dev/null)"; }

# After every step: whatever ends this script, what was found is in the files.
write_report() {
  list "$logs/gates.jsonl" > "$out/gates.json"
  printf '{"device": %s, "seconds": %s, "ok": %s, "steps": %s, "gates": %s}\n' "$(json "$device")" "$SECONDS" \
    "$([[ $failed == 0 ]] && echo true || echo false)" "$(list "$logs/steps.jsonl")" "$(list "$logs/gates.jsonl")" > "$out/report.json"
}

# NAME RESULT SECONDS DETAIL; RESULT: ok, failed, missed, timed out, not here, skipped. Only the first and the last two are no failure.
record() {
  local name=$1 result=$2 seconds=$3 detail=$4 text=$2
  case "$result" in
    failed | missed | 'timed out')
      failed=1
      text=${result^^}
      ;;
  esac
  printf '%-44s %-10s %5s  %s\n' "$name" "$text" "${seconds:+$seconds s}" "$detail" | tee -a "$out/report.txt"
  printf '{"step": %s, "result": %s, "seconds": %s, "detail": %s}\n' "$(json "$name")" "$(json "$result")" "${seconds:-null}" \
    "$(json "$detail")" >> "$logs/steps.jsonl"
  write_report
}

# shellcheck disable=SC2317  # the trap calls it
finish() {
  write_report
  tar -czf "$out/logs.tar.gz" -C "$logs" . 2> /dev/null
}
trap finish EXIT
trap 'failed=1; exit 1' INT TERM

# ---- Steps.

log_of() { echo "$logs/${1//[^a-zA-Z0-9_-]/-}.log"; }
last_line() { grep -v '^[[:space:]]*$' "$1" 2> /dev/null | tail -1 | cut -c1-160; }

# NAME LIMIT COMMAND…: runs it for at most LIMIT seconds or what is left; its output goes to its log, "code seconds" to its .result.
start() {
  local name=$1 limit=$2 left=$((deadline - SECONDS)) begin=$SECONDS code log
  shift 2
  log=$(log_of "$name")
  if ((left < 3)); then
    echo '- 0' > "${log%.log}.result"
    return
  fi
  timeout --kill-after=5 "$((limit < left ? limit : left))" "$@" > "$log" 2>&1 < /dev/null
  code=$?
  echo "$code $((SECONDS - begin))" > "${log%.log}.result"
}

# NAME [DETAIL]: what became of it; false unless it went well.
collect() {
  local name=$1 detail=${2-} log code seconds
  log=$(log_of "$name")
  read -r code seconds < "${log%.log}.result"
  case "$code" in
    0) record "$name" ok "$seconds" "$detail" ;;
    -) record "$name" 'timed out' 0 'no time was left for it' ;;
    124 | 137) record "$name" 'timed out' "$seconds" "$(last_line "$log")" ;;
    77) record "$name" 'failed' "$seconds" "no usable device: $(last_line "$log")" ;;
    *) record "$name" failed "$seconds" "exit code $code: $(last_line "$log") (see $log)" ;;
  esac
  [[ $code == 0 ]]
}

part() { # NAME LIMIT COMMAND…
  start "$@"
  collect "$1"
}

# LIMIT NAME…: programs of those names, as many at a time as there are cores; one, where a device serves one process at a time.
together() {
  local limit=$1 name most=1
  shift
  [[ -n $exclusive ]] || most=$(nproc)
  for name in "$@"; do
    while (($(jobs -rp | wc -l) >= most)); do
      wait -n || true
    done
    start "$name" "$limit" "$programs/$name" &
  done
  wait
}

# ---- The build.

compiler() {
  local own
  for own in build/_tools/bin/nvcc "$(type -P nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
    if [[ -n $own && -x $own ]]; then
      realpath "$own"
      return
    fi
  done
}

# False where this machine cannot.
build_it() {
  local nvcc flags=() targets=("$@")
  nvcc=$(compiler)
  for tool in cmake ninja c++; do
    if ! command -v "$tool" > /dev/null; then
      record build 'not here' '' "there is no $tool"
      return 1
    fi
  done
  if [[ -z $nvcc ]]; then
    record build 'not here' '' 'there is no nvcc in build/_tools, in PATH or in CUDA_HOME'
    return 1
  fi
  # A folder that was made elsewhere.
  if [[ -f $build/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$build/CMakeCache.txt"; then
    rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
  fi
  # For the devices of this machine alone: there is no time for all architectures.
  if [[ -n ${ARCHITECTURES-} || -n $capabilities ]]; then
    flags+=("-DCMAKE_CUDA_ARCHITECTURES=${ARCHITECTURES:-$capabilities}")
  fi
  # Perhaps for devices for which nobody has compiled yet, by a compiler that nobody has tried: a register that it spills costs a
  # little time, and would cost the whole run.
  [[ $mode != gpu ]] || flags+=(-DPHASOR_SPILLS_ARE_ERRORS=OFF)
  # shellcheck disable=SC2016  # the loader expands it
  start configure 90 cmake -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPHASOR_BUILD_SERVER=OFF -DPHASOR_CUDA=ON \
    "-DCMAKE_CUDA_COMPILER=$nvcc" '-DCMAKE_BUILD_RPATH=$ORIGIN/lib' -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags \
    "${flags[@]}" --log-level=WARNING
  if [[ $(cut -d' ' -f1 < "$logs/configure.result") != 0 && -x $packed/device_gates && $mode == gpu ]]; then
    record build 'not here' '' "$(grep -m1 -A1 'CMake Error' "$logs/configure.log" | tail -1 | cut -c1-120)"
    return 1
  fi
  collect configure || return 1
  part build "$([[ $mode == gpu ]] && echo 240 || echo 7000)" cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" ||
    return 1
  programs=$build/tests
}

# Programs and every library but the C library's own, which belongs to the machine.
pack() {
  local name library
  rm -rf "$packed"
  mkdir -p "$packed/lib"
  for name in "${carried[@]}"; do
    cp "$build/tests/$name" "$packed/" && strip "$packed/$name"
    ldd "$build/tests/$name" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'
  done | sort -u | grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' | while read -r library; do
    cp -L "$library" "$packed/lib/"
  done
  tar -czf "$packed.tar.gz" -C "$packed" . && du -sh "$packed" "$packed.tar.gz"
  for name in "${carried[@]}"; do
    if ldd "$packed/$name" | grep -E 'not found|=> /' | grep -Ev "=> ($PWD/)?$packed/lib/|/(libc|libm|libdl|librt|libpthread)\.so"; then
      return 1
    fi
  done
}

# ---- With a device.

capabilities=
ask_device() {
  local query=name,driver_version,compute_cap,mig.mode.current,compute_mode,memory.total
  device=$(timeout 30 nvidia-smi "--query-gpu=$query" --format=csv,noheader 2> /dev/null | paste -sd ';')
  if [[ -z $device ]]; then
    record device 'not here' '' 'nvidia-smi says nothing; the steps below say whether CUDA finds one'
    return
  fi
  record device ok '' "$device ($query)"
  exclusive=$(timeout 30 nvidia-smi --query-gpu=compute_mode --format=csv,noheader 2> /dev/null | grep -m1 Exclusive)
  capabilities=$(timeout 30 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | tr -d '. ' | grep -E '^[0-9]+$' |
    sort -u | sed 's/$/-real/' | paste -sd ';')
}

conformance() {
  local name launches
  PHASOR_VARIANTS=devices together 150 "${on_device[@]}" "${left_to_cpu[@]}"
  for name in "${on_device[@]}" "${left_to_cpu[@]}"; do
    launches=$(sed -n 's/^launches on devices: //p' "$(log_of "$name")" 2> /dev/null | tail -1)
    collect "$name" "launches on devices: ${launches:-not told}" || continue
    # Tests that never used a device would pass as well.
    if [[ " ${on_device[*]} " == *" $name "* && ! $launches =~ ^[1-9] ]]; then
      record "$name" failed '' 'nothing of it ran on a device'
    fi
  done
}

gates() {
  local groups group code seconds log name
  if ! groups=$(timeout 30 "$programs/device_gates" --list 2>&1); then
    record gates failed '' "device_gates does not start: $(tail -1 <<< "$groups")"
    return
  fi
  for group in $groups; do
    name="gates $group"
    log=$(log_of "$name")
    start "$name" 60 "$programs/device_gates" "--group=$group" "--json=$logs/gates.jsonl"
    read -r code seconds < "${log%.log}.result"
    if [[ $code == 1 ]] && grep -q 'MISSED$' "$log"; then
      record "$name" missed "$seconds" 'below'
    else
      collect "$name"
    fi
    sed 's/^/    /' "$log" 2> /dev/null | tee -a "$out/report.txt"
  done
}

# Only where one was built beside: it needs more packages than the kernels.
server_on_device() {
  local name='a server on the device' folder=build/bin work=$logs/server
  if [[ ! -x $folder/phasord || ! -x $folder/phasor ]]; then
    record "$name" 'not here' '' "there are no phasord and phasor in $folder (make cuda)"
    return
  fi
  if "$folder/phasord" --backend=cuda --check-config 2>&1 | grep -q 'cuda (not built in)'; then
    record "$name" 'not here' '' "$folder/phasord was built without CUDA"
    return
  fi
  mkdir -p "$work"
  start "$name" 60 deploy/gpu-server-check.sh "$folder" "$work"
  collect "$name" "$(last_line "$(log_of "$name")")"
  rm -f "$work"/*.npz
}

# NAME TOOL LIMIT COMMAND…: a tool that some machines have and on some of which it works. It fails where it finds something, and
# where what it looks at fails.
tool() {
  local name=$1 tool=$2 limit=$3 log code seconds
  shift 3
  if ! command -v "$tool" > /dev/null; then
    record "$name" 'not here' '' "there is no $tool"
    return
  fi
  log=$(log_of "$name")
  start "$name" "$limit" "$@"
  read -r code seconds < "${log%.log}.result"
  case "$code" in
    0) record "$name" ok "$seconds" "$(grep -m1 'ERROR SUMMARY' "$log" | tr -d =)" ;;
    9) record "$name" failed "$seconds" "$(grep -m1 -E 'Invalid|Misaligned|Uninitialized|Race|Error:' "$log" | tr -d =) (see $log)" ;;
    - | 124 | 137) record "$name" skipped "$seconds" 'no time was left for all of it' ;;
    *)
      # The sanitizer counts at the end of a program that it could watch.
      if grep -q 'ERROR SUMMARY' "$log" && ! grep -qE 'not supported|terminated before first instrumented' "$log"; then
        record "$name" failed "$seconds" "exit code $code: $(grep -v '^=' "$log" | tail -1 | cut -c1-120) (see $log)"
      else
        record "$name" 'not here' "$seconds" "it does not work on this machine: $(last_line "$log")"
      fi
      ;;
  esac
}

tools() {
  local check=(compute-sanitizer --error-exitcode 9 --print-limit 20)
  export PHASOR_VARIANTS=devices
  tool 'compute-sanitizer memcheck' compute-sanitizer 90 "${check[@]}" "$programs/task_conformance_test"
  tool 'compute-sanitizer memcheck of additions' compute-sanitizer 60 "${check[@]}" "$programs/add_conformance_test"
  # No racecheck: it watches shared memory, and no kernel has any.
  tool 'compute-sanitizer initcheck' compute-sanitizer 60 "${check[@]}" --tool initcheck "$programs/window_conformance_test"
  tool 'ncu of rotations' ncu 60 ncu --clock-control none --kernel-name regex:RunBody --launch-count 4 --section SpeedOfLight \
    "$programs/device_gates" --group=rotate
  tool 'nsys of the host path' nsys 60 nsys profile --force-overwrite=true --stats=true "--output=$logs/host-path" \
    "$programs/device_gates" --group=host
  unset PHASOR_VARIANTS
}

memory_of_another() {
  part 'driver tells the size of mapped memory' 60 "$programs/cuda_ipc_on_device" --probe
  sed 's/^/    cuMemGetAddressRange on memory of another process: /' "$(log_of 'driver tells the size of mapped memory')" 2> /dev/null |
    tee -a "$out/report.txt"
  # A second process owns the memory; its tensor is worked on where it is.
  part 'memory of another process' 60 "$programs/cuda_ipc_on_device"
}

with_device() {
  ask_device
  if [[ ! -x $packed/device_gates && -f $packed.tar.gz ]]; then
    mkdir -p "$packed" && tar -xzf "$packed.tar.gz" -C "$packed"
  fi
  if [[ -z $programs ]] && ! build_it "${carried[@]}"; then
    if [[ ! -x $packed/device_gates ]]; then
      record programs failed '' "nothing was built here, and nothing is packed in $packed (--pack)"
      return
    fi
    programs=$packed
  fi
  record programs ok '' "of $programs"
  if [[ -n $exclusive ]]; then
    record 'memory of another process' 'not here' '' "compute mode $exclusive: one process at a time"
  else
    memory_of_another
  fi
  conformance
  server_on_device
  gates
  tools
}

# ---- Without one.

needs_no_library() {
  local name
  for name in "${carried[@]}"; do
    if ldd "$programs/$name" | grep -iE 'cuda|nvidia'; then
      return 1
    fi
  done
}

without_device() {
  local name
  build_it "${carried[@]}" "${on_host[@]}" || return
  together 1800 "${on_host[@]}" "${on_device[@]}" "${left_to_cpu[@]}"
  for name in "${on_host[@]}" "${on_device[@]}" "${left_to_cpu[@]}"; do
    collect "$name"
  done
  if needs_no_library; then
    record 'libraries' ok '' 'no program needs one of CUDA'
  else
    record 'libraries' failed '' 'above'
  fi
}

case "$mode" in
  gpu) with_device ;;
  host) without_device ;;
  pack)
    if build_it "${carried[@]}" && pack; then
      record pack ok '' "$packed.tar.gz: carry it along, and run deploy/gpu-check.sh there"
    else
      record pack failed '' "nothing usable in $packed"
    fi
    ;;
esac
exit "$failed"
