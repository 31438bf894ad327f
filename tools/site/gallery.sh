#!/usr/bin/env bash
# Repeats runs of the gallery by the commands of gallery.txt, and packs their results, with provenance, for
# build.sh: all, or those named. About twenty minutes on two quiet processors.
#
# proxies needs nginx, HAProxy and Caddy: on PATH, or by make program-servers. instrumentation needs npm.
#
#   DEBATE=DIR tools/site/gallery.sh [NAME...]    DIR has V1/Data of the great sidecar debate; without it that run stays
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
note() { printf 'gallery: %s\n' "$*" >&2; }
table=$(sed 's/#.*//; /^[[:space:]]*$/d' tools/site/gallery.txt)
names=$(cut -d '|' -f 1 <<<"$table" | xargs)
for name; do
  [[ " $names " == *" $name "* ]] || { note "no run is called $name; there are $names"; exit 2; }
done
version=$(bin/tare --version)
case $version in *[-+]dirty*) note "$version has uncommitted changes, and cannot be built again: commit, then make build"; exit 2 ;; esac
work=$(mktemp -d /tmp/tare-gallery.XXXXXX) # in the records as the place of the programs
trap 'rm -rf "$work"; rm -f docs/pictures/*.tar.gz.new' EXIT
mkdir "$work/bin"
servers=${XDG_CACHE_HOME:-$HOME/.cache}/tare/servers/usr
libraries=$(echo "$servers"/lib/*-linux-gnu | tr ' ' :)
cp bin/tare bin/tare-agent "$work/bin/"
cp -r examples "$work/"
while IFS='|' read -r name _ command archive; do
  name=$(xargs <<<"$name") archive=$(xargs <<<"$archive")
  [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
  [ "$name" != quickstart ] || { note "$name: make pictures repeats it"; continue; }
  case $command in
    *great-sidecar-debate*)
      [ -n "${DEBATE:-}" ] || { note "$name: stays, because DEBATE names no directory"; continue; }
      ln -s "$(realpath "$DEBATE")/V1" "$work/V1" ;;
    *instrumentation*)
      npm install --prefix "$work/bin/otel" --no-audit --no-fund --loglevel=error @opentelemetry/api @opentelemetry/auto-instrumentations-node >&2 ;;
  esac
  note "$name:$command"
  code=0
  (cd "$work" && PATH="$work/bin:$PATH:$servers/sbin:$servers/bin" LD_LIBRARY_PATH="$libraries" bash -c "${command% --out *} --out runs/$name" </dev/null >"$name.log" 2>&1) || code=$?
  # 4 and 5: a gate is breached or undecided; 3: some trials are invalid. All are results.
  case $code in 0 | 3 | 4 | 5) ;; *) tail -20 "$work/$name.log" >&2; note "$name ended with $code"; exit 1 ;; esac
  tail -3 "$work/$name.log" >&2
  bin/tare verify "$work/runs/$name" >&2
  tar -C "$work/runs/$name" --sort=name --owner=0 --group=0 --numeric-owner --exclude=.lock --mtime=@0 -cf - . | gzip -9n >"$archive.new"
  mv "$archive.new" "$archive"
  note "$archive: $(wc -c <"$archive") bytes"
done <<<"$table"
