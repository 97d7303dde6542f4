#!/usr/bin/env bash
# `make load`: starts phasord on a free loopback port, sends it each scenario of scenarios.py with ghz, once with the method
# found by reflection and once from the descriptor set; then at fixed rates and after idle gaps with phasor bench-server.
# Reports rates, latencies, errors (none allowed) and memory.
#
#   LOAD_SECONDS=10 per run   LOAD_CONCURRENCY=16 calls in flight over LOAD_CONNECTIONS=4   PHASOR_BUILD_DIR=build
#   LOAD_RATE=500 small calls per second that are due   LOAD_GAPS=10 calls after idle gaps
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${LOAD_SECONDS:-10}
concurrency=${LOAD_CONCURRENCY:-16}
connections=${LOAD_CONNECTIONS:-4}
rate=${LOAD_RATE:-500}
gaps=${LOAD_GAPS:-10}
tools=${PHASOR_TOOLS_DIR:-build/_tools}/bin
build=${PHASOR_BUILD_DIR:-build}
protoset=$build/generated/phasor.protoset
work=$build/load
rm -rf "$work"
mkdir -p "$work/results"

python3 deploy/load/scenarios.py "$work/requests"

"$build/bin/phasord" --listen=127.0.0.1:0 --drain-delay=0 > "$work/out" 2> "$work/server.log" &
server=$!
# Only while it is still ours: a reaped id may be another process's.
trap 'if [[ -n $server ]]; then kill "$server" 2> /dev/null || true; fi' EXIT
for _ in $(seq 150); do
  address=$(sed -n 's/^listening on //p' "$work/out")
  if [[ -n $address ]] || ! kill -0 "$server" 2> /dev/null; then
    break
  fi
  sleep 0.1
done
if [[ -z $address ]]; then
  tail -20 "$work/server.log" >&2
  exit 1
fi

memory() { awk '/^Vm(RSS|HWM):/ {printf "%s %.1f MB  ", $1, $2 / 1024}' "/proc/$server/status"; }

scenarios=()
for request in "$work"/requests/*; do
  IFS=. read -r scenario service method form <<< "$(basename "$request")"
  scenarios+=("$scenario $service/$method")
  # One call whose answer is read: an item that failed would pass as a successful call.
  answer=$work/$scenario.answer
  format=text
  if [[ $form == jsonl ]]; then
    format=json
  fi
  "$tools/grpcurl" -plaintext -format "$format" -max-msg-sz 67108864 -d @ "$address" "phasor.v1.$service/$method" \
    < "$request" > "$answer"
  if grep -qE '^ +"?status"?:? ' "$answer"; then
    echo "$scenario: an item failed:" >&2
    grep -A4 -E '^ +"?status"?:? ' "$answer" | cut -c1-300 >&2
    exit 1
  fi
  if [[ $form == jsonl ]]; then
    # ghz takes the messages of a stream as one list.
    sed -e '1s/^/[/' -e '$!s/$/,/' -e '$s/$/]/' "$request" > "$work/$scenario.json"
  else
    protoc --descriptor_set_in="$protoset" --encode="phasor.v1.${method}Request" phasor/v1/position_service.proto \
      < "$request" > "$work/$scenario.bin"
  fi
done

before=$(memory)
for line in "${scenarios[@]}"; do
  read -r scenario call <<< "$line"
  data=(--binary-file "$work/$scenario.bin")
  if [[ -f $work/$scenario.json ]]; then
    data=(--data-file "$work/$scenario.json")
  fi
  for way in reflection protoset; do
    source=()
    if [[ $way == protoset ]]; then
      source=(--protoset "$protoset")
    fi
    "$tools/ghz" --insecure "${source[@]}" --call "phasor.v1.$call" "${data[@]}" \
      --duration "${seconds}s" --duration-stop wait --concurrency "$concurrency" --connections "$connections" \
      --format json --output "$work/results/$scenario.$way.json" "$address"
  done
done
status=0
python3 deploy/load/report.py "$work/results" || status=$?

# Open loop: calls are due at a fixed rate, and count from then.
open_loop() {
  echo
  "$build/bin/phasor" --server "$address" bench-server "$@" || status=1
}
open_loop --rate "$rate" --duration "${seconds}s" --connections "$connections" --mix table=8,batch,apply-64k=4,apply-1m
open_loop --rate 4 --duration "${seconds}s" --mix apply-16m,stream-table,stream-apply
open_loop --idle-gap 1.05s --requests "$gaps"
echo
after=$(memory)
echo "server memory before: $before"
echo "server memory after:  $after"
kill -TERM "$server"
wait "$server" || { echo "SIGTERM ended the server with $?" >&2; status=1; }
server=
exit "$status"
