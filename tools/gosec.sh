#!/usr/bin/env bash
# gosec.sh PROGRAM… runs gosec and fails on findings that tools/gosec.txt does not list. A line of that
# file has a rule, a file and why the finding is no weakness. A listed file may have several findings of
# the rule. It needs no network.
set -euo pipefail
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$@" -quiet -exclude-generated -fmt=golint ./internal/... ./cmd/... >"$out" || true
(cd kube && "${@/tools\/go.mod/../tools/go.mod}" -quiet -exclude-generated -fmt=golint ./internal/... ./cmd/... >>"$out" || true)
awk -v root="$PWD/" '
  FNR == NR { if ($0 !~ /^#/ && NF > 1) known[$1 " " $2]; next }
  match($0, /Rule:G[0-9]+/) {
    rule = substr($0, RSTART + 5, RLENGTH - 5); file = $0
    sub(/:.*/, "", file); sub(root, "", file)
    seen[rule " " file]
    if (!((rule " " file) in known)) { print; new++ }
  }
  END {
    if (!length(seen)) { print "gosec printed no finding: did it run?"; exit 1 }
    for (k in known) if (!(k in seen)) print "tools/gosec.txt: " k ": no such finding any more"
    if (new) { print new " findings of gosec are not in tools/gosec.txt"; exit 1 }
  }' tools/gosec.txt "$out"
