#!/usr/bin/env bash
# Installs what an example needs into bin/, in the versions of this directory. make example calls it. A complete
# copy of the same versions is kept. It needs python3 with venv and npm, mvn and java, or go on PATH.
#
# usage: tools/examples/install.sh EXAMPLE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
versions=tools/examples
agent=2.20.1 agent_sha256=d94e9fc648cab37e540571352937acc06b8014182ddbd2d93a6c08641c84e48e
log() { printf 'examples: %s\n' "$*" >&2; }
need() { command -v "$1" >/dev/null || { log "put $1 on PATH: apt install $2"; exit 1; }; }
there() { cmp -s "$1" "$2/complete" && log "there already, $2"; }

# python LIST DIRECTORY: an environment of Python with the packages of a list, which has all that they depend on.
python() {
  need python3 python3-venv
  there "$1" "$2" && return
  log "pip install, $2"
  python3 -m venv --clear "$2"
  "$2/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$1" >&2
  cp "$1" "$2/complete"
}

# node PACKAGES DIRECTORY: the packages of a package-lock.json, which has their checksums.
node() {
  need npm npm
  there "$1/package-lock.json" "$2" && return
  log "npm ci, $2"
  mkdir -p "$2"
  cp "$1/package.json" "$1/package-lock.json" "$2/"
  npm ci --prefix "$2" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  cp "$1/package-lock.json" "$2/complete"
}

# jar: the Java agent, with its checksum.
jar() {
  need java default-jre-headless
  local to=bin/otel-java/opentelemetry-javaagent.jar
  if ! sha256sum --status --check <<<"$agent_sha256  $to" 2>/dev/null; then
    need mvn maven
    log "mvn dependency:copy, $to"
    mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:2.8:copy -Dartifact="io.opentelemetry.javaagent:opentelemetry-javaagent:$agent" -DoutputDirectory=bin/otel-java -Dmdep.stripVersion=true >&2
    sha256sum --quiet --check <<<"$agent_sha256  $to" >&2
  fi
}

case ${1:-} in
  envoy-extensions) go build -o bin/extproc ./examples/findings/extproc ;;
  llm-gateway)
    python "$versions/litellm.txt" bin/litellm
    node "$versions/portkey" bin/portkey ;;
  opentelemetry-java) jar ;;
  opentelemetry-node) node "$versions/opentelemetry-node" bin/otel ;;
  opentelemetry-python) python "$versions/opentelemetry-python.txt" bin/otel-python ;;
  pgbouncer)
    need haproxy haproxy
    need pgbouncer pgbouncer
    [ -n "$(command -v postgres || ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null)" ] || need postgres postgresql ;;
  sidecar-call) go build -o bin/adder ./examples/adder ;;
  *) log "usage: tools/examples/install.sh $(grep -oE '^  [a-z-]+\)' "$0" | tr -d ' )' | paste -sd '|')"; exit 2 ;;
esac
