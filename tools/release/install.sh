#!/usr/bin/env bash
# Unpacks Debian's debootstrap, qemu-user and Ruby into the user's cache, for the tests of a release. Nothing is
# installed. A complete copy is kept.
set -euo pipefail
log() { printf 'release: %s\n' "$*" >&2; }
. "$(dirname "${BASH_SOURCE[0]}")/../debian.sh"

unpack() {
  dpkg-deb --fsys-tarfile qemu-user-static_*.deb | tar -x ./usr/bin/qemu-aarch64-static # one of 60 architectures
  rm qemu-user-static_*.deb
  debian_whole
}
debian_tree "${XDG_CACHE_HOME:-$HOME/.cache}/tare/release" unpack debootstrap qemu-user-static ruby3.1 libruby3.1 libyaml-0-2
