#!/usr/bin/env bash
# Unpacks Debian's debootstrap, qemu-user and Ruby into the user's cache, for the tests of a release. Nothing is
# installed. A complete copy is kept.
set -euo pipefail

to=${XDG_CACHE_HOME:-$HOME/.cache}/tare/release
packages=(debootstrap qemu-user-static ruby3.1 libruby3.1 libyaml-0-2)
log() { printf 'release: %s\n' "$*" >&2; }

if [ "$(cat "$to/complete" 2>/dev/null)" = "${packages[*]}" ]; then log "there already, $to"; exit 0; fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { log "not had: it needs apt-get"; exit 1; }
mkdir -p "$(dirname "$to")"
work=$(mktemp -d "$(dirname "$to")/.release-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download -qq "${packages[@]}" >&2 || { [ "$(id -u)" -eq 0 ] && apt-get update -qq && apt-get download -qq "${packages[@]}"; } >&2 # their checksums are the package list's
dpkg-deb --fsys-tarfile qemu-user-static_*.deb | tar -x ./usr/bin/qemu-aarch64-static # one of 60 architectures
rm qemu-user-static_*.deb
for package in *.deb; do dpkg-deb -x "$package" .; done
rm -- *.deb
echo "${packages[*]}" >complete
rm -rf "$to"
mv "$work" "$to"
mkdir "$work" # for the trap
log "unpacked, $to"
