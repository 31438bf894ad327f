#!/usr/bin/env bash
# Builds Consul from its Go module, at the version and with the sources that go.mod
# and go.sum pin, into tare's cache directory; a build that exists is kept.
#
# XDG_CACHE_HOME  the cache directory; default: ~/.cache
# GO              the go command
set -euo pipefail
cd "$(dirname "$0")"

go=${GO:-go}
module=github.com/hashicorp/consul
log() { printf 'consul: %s\n' "$*" >&2; }

version=$("$go" list -m -f '{{.Version}}' "$module")
version=${version#v}
dir=${XDG_CACHE_HOME:-$HOME/.cache}/tare/consul-$version-$("$go" env GOARCH)

if [ -x "$dir/consul" ] && [ "$(sha256sum <"$dir/consul" | cut -d' ' -f1)" = "$(cat "$dir/consul.sha256" 2>/dev/null)" ]; then
  log "$version: there already, $dir"
  exit
fi
mkdir -p "$dir"
tmp=$(mktemp "$dir/.consul-XXXXXX")
trap 'rm -f "$tmp"' EXIT
log "$version: building (go build, about 12 minutes of a processor; HashiCorp's license for it is BUSL-1.1)"
CGO_ENABLED=0 "$go" build -trimpath -gcflags=all=-dwarf=false -ldflags '-s -w' -o "$tmp" "$module"
chmod 755 "$tmp"
sha256sum <"$tmp" | cut -d' ' -f1 >"$dir/consul.sha256"
mv "$tmp" "$dir/consul"
log "$version: installed, $dir"
