#!/usr/bin/env bash
# Installs what the page's tests need, once: the packages of package-lock.json into the user's
# cache, Chromium (TARE_CHROMIUM overrides it) and tmux. Needs Node.js with npm, and root for the others.
# With CI=true it fails if one is missing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
to=${XDG_CACHE_HOME:-$HOME/.cache}/tare/page
say() { printf 'page: %s\n' "$*" >&2; }
lacking() {
  [ "${CI:-}" != true ] || { say "no $1: an error with CI=true"; exit 1; }
  say "no $1: tests that need it are skipped"
}

missing=()
command -v "${TARE_CHROMIUM:-chromium}" >/dev/null || missing+=(chromium fonts-dejavu-core)
command -v tmux >/dev/null || missing+=(tmux) # for the test of the screen
command -v npm >/dev/null || missing+=(npm)
if [ "${#missing[@]}" -gt 0 ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  say "apt-get install ${missing[*]}"
  apt-get update -qq >&2 || true
  for package in "${missing[@]}"; do # one that is absent hinders no other
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >&2 || true
  done
fi
command -v "${TARE_CHROMIUM:-chromium}" >/dev/null || lacking Chromium
command -v tmux >/dev/null || lacking tmux
command -v npm >/dev/null || { lacking npm; exit 0; }
if cmp -s "$here/package-lock.json" "$to/package-lock.json" && [ -e "$to/complete" ]; then say "there already, $to"; exit 0; fi
mkdir -p "$to"
rm -f "$to/complete"
cp "$here/package.json" "$here/package-lock.json" "$to/"
npm ci --prefix "$to" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
touch "$to/complete"
say "installed, $to"
