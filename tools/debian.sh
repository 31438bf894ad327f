# Functions for scripts that take programs out of Debian's packages. Sourced; the script defines log.

# debian_download PACKAGE…: into the working directory. The package list has their checksums.
debian_download() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { log "not had: it needs apt-get"; return 1; }
  apt-get download -qq "$@" >&2 || { [ "$(id -u)" -eq 0 ] && apt-get update -qq && apt-get download -qq "$@"; } >&2
}

# debian_tree DIRECTORY UNPACK PACKAGE…: a directory with the content of packages. UNPACK, a function, does so in the
# working directory, which has them. A complete copy of the same packages is kept.
debian_tree() {
  local to=$1 unpack=$2 work
  shift 2
  if [ "$(cat "$to/complete" 2>/dev/null)" = "$*" ]; then log "there already, $to"; return; fi
  mkdir -p "$(dirname "$to")"
  work=$(mktemp -d "$(dirname "$to")/.unpack-XXXXXX")
  (
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    chmod 755 .
    debian_download "$@"
    "$unpack"
    rm -f -- *.deb
    echo "$*" >complete
    rm -rf "$to"
    mv "$work" "$to"
  )
  log "unpacked, $to"
}

# debian_whole unpacks all packages of the working directory.
debian_whole() { for package in *.deb; do dpkg-deb -x "$package" .; done; }
