#!/usr/bin/env bash
# `make image`: builds phasor:dev, starts its server, calls it with its own tool, stops it, and says what takes the space.
# With an engine that answers (docker, podman) through it; otherwise, as root, with buildah and a base image that
# debootstrap makes from the distribution's packages.
#
#   IMAGE=phasor:dev  SIZE_LIMIT_MB=150  ARCHIVE=phasor.tar (also writes an OCI archive there; buildah only)
set -euo pipefail
cd "$(dirname "$0")/.."

image=${IMAGE:-phasor:dev}
limit_mb=${SIZE_LIMIT_MB:-150}
version=$(sed -n 's/^project(Phasor VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
revision=$(git rev-parse HEAD 2> /dev/null || echo unknown)
build_arguments=(--build-arg "VERSION=$version" --build-arg "REVISION=$revision")
suite=bookworm

say() { printf '== %s\n' "$*"; }

engine() {
  local candidate
  for candidate in docker podman; do
    if command -v "$candidate" > /dev/null && timeout 20 "$candidate" info > /dev/null 2>&1 &&
      timeout 20 "$candidate" version --format '{{.Server.Version}}' > /dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
}

check_size() {
  local bytes=$1
  say "size: $((bytes / 1000000)) MB, limit $limit_mb MB"
  if ((bytes > limit_mb * 1000000)); then
    echo "the image is over its limit" >&2
    return 1
  fi
}

# ---- With an engine.

with_engine() {
  local container=
  "$1" build --tag "$image" "${build_arguments[@]}" .
  say "$image: start, call, stop"
  container=$("$1" run --detach --read-only --cap-drop ALL "$image")
  # shellcheck disable=SC2064  # the name is known now
  trap "'$1' rm --force '$container' > /dev/null 2>&1 || true" EXIT
  for _ in $(seq 100); do
    if "$1" exec "$container" phasor --server=127.0.0.1:50051 info > /dev/null 2>&1; then
      break
    fi
    sleep 0.2
  done
  "$1" exec "$container" phasor --server=127.0.0.1:50051 info
  "$1" stop --time 20 "$container" > /dev/null
  [[ $("$1" inspect --format '{{.State.ExitCode}}' "$container") == 0 ]] || { echo 'SIGTERM did not end it with 0' >&2; return 1; }
  "$1" history "$image"
  check_size "$("$1" image inspect --format '{{.Size}}' "$image")"
}

# ---- Without one.

export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
base=localhost/debian:bookworm-slim
scratch=
working=()
server=

cleanup() {
  if [[ -n $server ]] && kill -0 "$server" 2> /dev/null; then
    kill -KILL "$server" 2> /dev/null || true
  fi
  local container
  for container in "${working[@]}"; do
    buildah rm "$container" > /dev/null 2>&1 || true
  done
  if [[ -n $scratch ]]; then
    rm -rf --one-file-system "$scratch"
  fi
}

# The base image, as slim as the published one: no documentation but licences, no translations.
make_base() {
  local root container
  say "base image from Debian's packages (once)"
  root=$scratch/base
  debootstrap --variant=minbase "$suite" "$root" > "$scratch/debootstrap.log" || { tail -20 "$scratch/debootstrap.log" >&2; return 1; }
  cat > "$root/etc/dpkg/dpkg.cfg.d/slim" << 'SLIM'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
SLIM
  find "$root/usr/share/doc" -type f ! -name copyright -delete
  find "$root/usr/share/doc" -depth -type d -empty -delete
  rm -rf "$root"/usr/share/{man,info,locale}/* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/*
  # The machine's own archive and its settings, so that a mirror used here is used in the build; elsewhere what debootstrap wrote.
  if [[ -f /etc/apt/sources.list.d/debian.sources ]]; then
    cp /etc/apt/sources.list.d/debian.sources "$root/etc/apt/sources.list.d/"
    : > "$root/etc/apt/sources.list"
  fi
  container=$(buildah from scratch)
  working+=("$container")
  buildah copy --quiet "$container" "$root" / > /dev/null
  buildah config --cmd bash "$container"
  buildah commit --quiet "$container" "$base" > /dev/null
  rm -rf --one-file-system "$root"
}

# Runs a program of the image as the image's user, as this shell's own process (exec all the way), with /proc where the
# machine lets us mount it.
in_image() {
  local root=$1
  shift
  # shellcheck disable=SC2016  # the inner shell expands them
  exec unshare --mount sh -c 'mount --rbind /proc "$1/proc" 2> /dev/null || true; shift
    exec env -i PATH=/usr/local/bin:/usr/bin:/bin "$@"' sh "$root" "$(type -P chroot)" --userspec=65532:65532 "$root" "$@"
}

largest() {
  say 'what takes the space, MB'
  (cd "$1" && du --one-file-system --block-size=1MB -s usr/local/bin/* usr/lib usr/bin usr/share usr/sbin var etc 2> /dev/null | sort -rn)
  say 'largest packages, MB'
  dpkg-query --admindir="$1/var/lib/dpkg" --show --showformat='${Installed-Size} ${Package}\n' | sort -rn |
    awk 'NR <= 12 {printf "%.1f\t%s\n", $1 / 1000, $2}'
}

start_call_stop() {
  local root=$1 address status=0
  say "$image: start, call, stop"
  (in_image "$root" /usr/local/bin/phasord --listen=127.0.0.1:0 --drain-delay=0) > "$scratch/out" 2> "$scratch/log" &
  server=$!
  for _ in $(seq 100); do
    address=$(sed -n 's/^listening on //p' "$scratch/out")
    if [[ -n $address ]] || ! kill -0 "$server" 2> /dev/null; then
      break
    fi
    sleep 0.2
  done
  if [[ -z $address ]]; then
    echo 'the server did not start:' >&2
    tail -20 "$scratch/log" >&2
    return 1
  fi
  (in_image "$root" /usr/local/bin/phasor "--server=$address" info)
  kill -TERM "$server"
  wait "$server" || status=$?
  server=
  if [[ $status -ne 0 ]]; then
    echo "SIGTERM ended the server with $status" >&2
    tail -20 "$scratch/log" >&2
    return 1
  fi
}

without_engine() {
  if [[ $EUID -ne 0 ]]; then
    echo 'no container engine answers; without one this has to run as root (buildah, debootstrap)' >&2
    exit 1
  fi
  deploy/install-dependencies.sh image
  scratch=$(mktemp -d)
  trap cleanup EXIT
  if ! buildah images --quiet "$base" > /dev/null 2>&1; then
    make_base
  fi
  # Fetched here, the google/rpc protos need no Python and no certificates inside.
  if command -v cmake > /dev/null; then
    cmake -P deploy/cmake/print_googleapis.cmake > /dev/null 2>&1
  fi
  say "$image: build"
  local before
  before=$(buildah images --quiet --no-trunc "localhost/$image" 2> /dev/null || true)
  buildah bud --pull-never --format docker --tag "localhost/$image" "${build_arguments[@]}" .
  # Each image is a whole tree on disk (vfs): the one that just lost its name goes.
  if [[ -n $before && $before != "$(buildah images --quiet --no-trunc "localhost/$image")" ]]; then
    buildah rmi "$before" > /dev/null 2>&1 || true
  fi
  local container root
  container=$(buildah from --pull-never "localhost/$image")
  working+=("$container")
  root=$(buildah mount "$container")
  start_call_stop "$root"
  say "configuration: $(buildah inspect --type image --format \
    'user {{.Docker.Config.User}}, entry point {{.Docker.Config.Entrypoint}}, stop {{.Docker.Config.StopSignal}}, health {{.Docker.Config.Healthcheck}}' \
    "localhost/$image")"
  largest "$root"
  check_size "$(du --one-file-system --bytes -s "$root" | cut -f1)"
  if [[ -n ${ARCHIVE-} ]]; then
    buildah push --quiet "localhost/$image" "oci-archive:$ARCHIVE:$image"
    say "archive: $ARCHIVE, $(($(stat --format %s "$ARCHIVE") / 1000000)) MB"
  fi
}

found=$(engine)
if [[ -n $found ]]; then
  with_engine "$found"
else
  without_engine
fi
