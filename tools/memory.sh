#!/usr/bin/env bash
# Runs a command with its temporary files in memory, if there is room for them: on a disk, making and synchronizing small
# files takes a quarter of the CPU of `make test`.
#
#   tools/memory.sh COMMAND…
set -euo pipefail
needed=4 # GiB: of tests, and of the programs that go links for them
free() { df --output=avail -BG "$1" | tr -dc 0-9; }
available() { awk '/^MemAvailable:/ { print int($2 / 1024 / 1024) }' /proc/meminfo; }

# The path is short, since those of sockets have 108 bytes at most, and always the same, since go test keeps results by it.
# Tests that run as another user pass through.
dir=/dev/shm/tare-$UID
if [ -z "${TMPDIR:-}" ] && mkdir -p -m 0711 "$dir" 2>/dev/null && [ -O "$dir" ] && [ ! -L "$dir" ] && exec 9<"$dir"; then
  flock --shared 9
  # The last of the calls that run at a time removes what tests left that were killed.
  trap 'flock --unlock 9; ! flock --nonblock --exclusive 9 || find "$dir" -mindepth 1 -delete' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  program=$(mktemp "$dir/program.XXXXXX")
  printf '#!/bin/sh\n' >"$program" && chmod +x "$program"
  if [ "$(free "$dir")" -ge $needed ] && [ "$(available)" -ge $((2 * needed)) ] && "$program" 2>/dev/null; then
    export TMPDIR=$dir GOTMPDIR=$dir
  fi
fi
"$@" 9<&-
