#!/usr/bin/env bash
# A server on the device, from outside: a table of it and one of the CPU are the same file, though the first came through memory
# that the server's pool pinned where it lay; then it tells of its launches. deploy/gpu-check.sh runs it where a server was built.
#
#   deploy/gpu-server-check.sh FOLDER WORK   FOLDER has phasord and phasor; WORK is there, and takes their files
set -uo pipefail
folder=$1
work=$2

"$folder/phasord" --backend=cuda --drain-delay=0 --listen=127.0.0.1:0 --metrics-listen=127.0.0.1:0 \
  > "$work/listening" 2> "$work/log" &
server=$!
trap 'kill "$server" 2> /dev/null; wait "$server"' EXIT
trap 'exit 1' INT TERM
until address=$(sed -n 's/^listening on //p' "$work/listening") && [[ -n $address ]]; do
  if ! kill -0 "$server" 2> /dev/null; then
    cat "$work/log"
    exit 1
  fi
  sleep 0.2
done

table=(table rope_linear head_dim=128 factor=8 --positions 0:131072)
"$folder/phasor" "--server=$address" "${table[@]}" -o "$work/device.npz" || exit 1
"$folder/phasor" --backend=cpu "${table[@]}" -o "$work/cpu.npz" || exit 1
cmp "$work/device.npz" "$work/cpu.npz" || exit 1

metrics=$(sed -n 's/.* metrics address=//p' "$work/log")
exec 3<> "/dev/tcp/${metrics%:*}/${metrics##*:}" || exit 1
printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
launches=$(sed -n 's/^phasor_device_launches_total{.*} //p' <&3 | tr -d '\r' | paste -sd ' ')
echo "the CPU's bits; launches on devices: ${launches:-not told}"
[[ $launches =~ [1-9] ]]
