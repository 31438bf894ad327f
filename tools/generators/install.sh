#!/usr/bin/env bash
# Installs the load generators of the package registries into a cache directory, each in a
# directory named after its version. Installed versions are kept. Prints
# each step. A generator that fails is named, and the others follow.
#
#   tools/generators/install.sh [NAME]…      default: all of them
#
# TARE_GENERATORS  the directory; default: tare/generators in the user's cache
# GO               the go command
set -euo pipefail
cd "$(dirname "$0")"

dir=${TARE_GENERATORS:-${XDG_CACHE_HOME:-$HOME/.cache}/tare/generators}
go=${GO:-go}
failed=()

oha_version=1.16.0
declare -A module_of=([vegeta]=github.com/tsenart/vegeta/v12 [fortio]=.)
# The fourth number of fortio is that of its command in this directory.
declare -A version_of=([vegeta]=12.12.0 [fortio]=1.75.3.1)
declare -A flags_of=([vegeta]='-X main.Version=12.12.0' [fortio]='')
declare -A package_of=([wrk]=wrk [h2load]=nghttp2-client [nginx]=nginx)

log() { printf 'generators: %s\n' "$*" >&2; }
fail() { log "$1: not installed: $2"; failed+=("$1"); }

trap '[ -z "${tmp:-}" ] || rm -rf "$tmp"' EXIT # of an interrupted build

# place BUILD NAME VERSION: builds into a temporary directory, which then gets its name.
place() {
  local build=$1 name=$2 version=$3 to
  to=$dir/$name-$version
  if [ -x "$to/bin/$name" ]; then log "$name $version: there already, $to"; return; fi
  mkdir -p "$dir"
  tmp=$(mktemp -d "$dir/.$name-XXXXXX")
  if "$build" "$name" "$version" "$tmp"; then
    rm -rf "$to"
    chmod 755 "$tmp"
    mv "$tmp" "$to"
    tmp=
    log "$name $version: installed, $to"
  else
    rm -rf "$tmp"
    fail "$name" "the build failed; its output is above"
  fi
}

build_go() {
  log "$1 $2: building (go build)"
  (cd "$1" && CGO_ENABLED=0 "$go" build -trimpath -gcflags=all=-dwarf=false -ldflags "-s -w ${flags_of[$1]}" -o "$3/bin/$1" "${module_of[$1]}")
}

build_oha() {
  log "$1 $2: building (cargo install, some minutes)"
  nice -n 19 cargo install oha --locked --quiet --version "$2" --root "$3"
}

oha() {
  if [ -x "$dir/oha-$oha_version/bin/oha" ]; then place build_oha oha "$oha_version"; return; fi
  command -v cargo >/dev/null || { fail oha "it needs Rust's cargo"; return; }
  command -v cmake >/dev/null || debian cmake
  command -v cmake >/dev/null || { fail oha "it needs cmake"; return; }
  place build_oha oha "$oha_version"
}

# debian PACKAGE: with apt-get, for root only.
debian() {
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    log "$1: would be installed by: sudo apt-get install $1"
    return
  fi
  log "$1: apt-get install"
  { [ -n "${updated:-}" ] || apt-get update -qq; updated=yes
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1"; } >&2 || true
}

system() {
  local name=$1
  if command -v "$name" >/dev/null; then log "$name: there already, $(command -v "$name")"; return; fi
  debian "${package_of[$name]}"
  command -v "$name" >/dev/null || fail "$name" "install the package ${package_of[$name]}"
}

[ $# -gt 0 ] || set -- wrk vegeta fortio oha
for name in "$@"; do
  case $name in
    oha) oha ;;
    wrk) system "$name" ;;
    # For make bench-load: a server and another client; its package must not start one.
    nginx | h2load) PATH=$PATH:/usr/sbin RUNLEVEL=1 system "$name" ;;
    vegeta | fortio) place build_go "$name" "${version_of[$name]}" ;;
    *) fail "$name" "it cannot be had from here; put it on PATH, or into $dir/$name-VERSION/bin" ;;
  esac
done
[ ${#failed[@]} -eq 0 ] || { log "missing: ${failed[*]}"; exit 1; }
