#!/usr/bin/env bash
# Says in one line if less disk is free than `make e2e` takes beside what its caches hold already. With CI=true it first
# empties Go's build cache, which grows with every commit.
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tare
mkdir -p "$cache"
builds=$(${GO:-go} env GOCACHE)
# What they hold after a run from empty caches, in MB. The first number: five clusters, programs of tests, and a commit's
# packages in a full build cache.
sizes=(5000 "$builds" 5000 "$(${GO:-go} env GOMODCACHE)" 6000 "$cache" 2500)

free() { df --output=avail -BM "$cache" | tr -dc 0-9; }
needed() {
  local need=${sizes[0]} has i
  for ((i = 1; i < ${#sizes[@]}; i += 2)); do
    has=$(du -sm "${sizes[i]}" 2>/dev/null | cut -f1)
    ((has >= sizes[i + 1])) || need=$((need + sizes[i + 1] - has))
  done
  echo "$need"
}

free=$(free) need=$(needed)
if ((free < need)) && [ "${CI:-}" = true ]; then
  ${GO:-go} clean -cache
  echo "disk: emptied Go's build cache ($builds), since only $free MB were free and the tests need $need MB; now $(free) MB are free"
  free=$(free) need=$(needed)
fi
if ((free < need)); then
  echo "disk: only $free MB are free at $cache, and the tests may need $need MB more; go clean -cache empties Go's build cache ($builds)" >&2
fi
