#!/usr/bin/env bash
# Unpacks Debian's Prometheus into the user's cache, for the test of the Prometheus meter. Nothing is installed:
# the program alone is taken out of the package. An existing copy is kept.
#
# TARE_PROMETHEUS  the program, if there is one already
set -euo pipefail

to=${XDG_CACHE_HOME:-$HOME/.cache}/tare/prometheus
log() { printf 'prometheus: %s\n' "$*" >&2; }

for there in "${TARE_PROMETHEUS:-}" "$to/prometheus" "$(command -v prometheus || true)"; do
  if [ -x "$there" ]; then log "there already, $there"; exit 0; fi
done
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { log "not had: it needs apt-get; put prometheus on PATH"; exit 1; }
mkdir -p "$to"
work=$(mktemp -d "$to/.unpack-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq prometheus >&2 || { [ "$(id -u)" -eq 0 ] && apt-get update -qq && apt-get download -qq prometheus; } >&2 # its checksum is the package list's
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/prometheus
mv usr/bin/prometheus "$to/prometheus"
log "unpacked, $to/prometheus"
