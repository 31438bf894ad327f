#!/usr/bin/env bash
# Brings two of Prometheus into the user's cache, for tests. Nothing is installed, and existing copies are kept.
# prometheus is Debian's: the program alone is taken out of the package. prometheus-otlp, which has an OTLP
# receiver, is built from the Go module that go.mod beside this file pins, without service discovery.
#
# TARE_TEST_ALL  builds prometheus-otlp too, minutes of a processor
# TARE_PROMETHEUS, TARE_PROMETHEUS_OTLP  the programs, if there are some already
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
to=${XDG_CACHE_HOME:-$HOME/.cache}/tare/prometheus
log() { printf 'prometheus: %s\n' "$*" >&2; }
. "$here/../debian.sh"

debian() {
  local there
  for there in "${TARE_PROMETHEUS:-}" "$to/prometheus" "$(command -v prometheus || true)"; do
    if [ -x "$there" ]; then log "there already, $there"; return; fi
  done
  mkdir -p "$to"
  local work
  work=$(mktemp -d "$to/.unpack-XXXXXX")
  (
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    debian_download prometheus
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/prometheus
    mv usr/bin/prometheus "$to/prometheus"
  )
  log "unpacked, $to/prometheus"
}

otlp() {
  local there
  for there in "${TARE_PROMETHEUS_OTLP:-}" "$to/prometheus-otlp"; do
    if [ -x "$there" ]; then log "there already, $there"; return; fi
  done
  mkdir -p "$to"
  CGO_ENABLED=0 "${GO:-go}" -C "$here" build -trimpath -gcflags=all=-dwarf=false -ldflags '-s -w' -tags remove_all_sd -o "$to/.prometheus-otlp" github.com/prometheus/prometheus/cmd/prometheus >&2
  mv "$to/.prometheus-otlp" "$to/prometheus-otlp"
  log "built, $to/prometheus-otlp"
}

debian
if [ -n "${TARE_TEST_ALL:-}" ]; then otlp; fi
