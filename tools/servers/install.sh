#!/usr/bin/env bash
# Unpacks Debian's nginx, Apache, HAProxy, lighttpd, Caddy, h2o and redis, Python's aiohttp, uvicorn, hypercorn and gunicorn, and
# Java's Tomcat and Jetty, with libraries that may be missing, into the user's cache. They are for the conformance tests of
# tare load and for applications on a cluster. Undertow comes from Maven Central. Nothing of these is installed. A complete copy is kept. Node.js, Ruby's Puma, a
# JDK, for make e2e-all cargo, and programs that other tests call are taken from PATH, or installed as root.
set -euo pipefail

to=${XDG_CACHE_HOME:-$HOME/.cache}/tare/servers
packages=(nginx redis-server redis-tools liblzf1 libjemalloc2 libatomic1 apache2-bin libapr1 libaprutil1 libnghttp2-14 haproxy lighttpd libpcre2-8-0 liblua5.3-0 libopentracing-c-wrapper0 libopentracing1 libnettle8 libxxhash0
  python3-aiohttp python3-multidict python3-yarl python3-frozenlist python3-aiosignal python3-attr python3-async-timeout
  python3-charset-normalizer python3-idna python3-uvicorn python3-asgiref python3-h11 python3-click python3-hypercorn python3-h2
  python3-hpack python3-hyperframe python3-wsproto python3-priority python3-toml
  python3-gunicorn python3-pkg-resources python3-setuptools caddy h2o libtomcat10-embed-java libtomcat10-java libjetty9-java libservlet-api-java)
log() { printf 'servers: %s\n' "$*" >&2; }
. "$(dirname "${BASH_SOURCE[0]}")/../debian.sh"

missing=()
for program in node:nodejs curl jq minisign puma javac:default-jdk-headless mvn:maven ${TARE_TEST_ALL:+cargo}; do command -v "${program%:*}" >/dev/null || missing+=("${program#*:}"); done
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if [ "${#missing[@]}" -gt 0 ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  log "apt-get install ${missing[*]}"
  apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 || true
fi
for program in node curl jq minisign; do command -v "$program" >/dev/null || { log "put $program on PATH"; exit 1; }; done
debian_tree "$to" debian_whole "${packages[@]}"
if ! ls "$to/../undertow/"undertow-core-*.jar >/dev/null 2>&1 && command -v mvn >/dev/null; then
  log "undertow by mvn"
  mvn -q -B -f "$(dirname "${BASH_SOURCE[0]}")/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$(readlink -f "$to/..")/undertow" >&2
fi
