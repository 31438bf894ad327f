#!/usr/bin/env bash
# Prints tests by a report of `go test -json`: an expression for -run, then their packages.
#
#   tools/select.sh left REPORT PACKAGE…    tests that `make test` left out or shortened. One that does less under -short has the
#                                           attribute: t.Attr("short", "1000 experiments").
#   tools/select.sh failed REPORT           tests whose last end in the report is a failure
set -euo pipefail
which=$1 report=$2
shift 2
awk -F'"' -v which="$which" -v packages="$([ "$which" = failed ] || ${GO:-go} list "$@")" '
  BEGIN { for (n = count = split(packages, p, "\n"); n > 0; n--) chosen[p[n]] }
  $14 != "Test" { next }
  which == "failed" && $8 ~ /^(pass|fail|skip)$/ && $16 !~ "/" { found[$12, $16] = $8 == "fail" }
  which == "left" && ($12 in chosen) && ($8 == "skip" || $8 == "attr" && $18 == "Key" && $20 == "short") {
    sub("/.*", "", $16); found[$12, $16] = 1
  }
  END {
    for (key in found) if (found[key]) { split(key, part, SUBSEP); names[part[2]]; left[part[1]] }
    for (name in names) run = run "|" name
    for (n = 1; n <= count; n++) if (p[n] in left) { rest = rest " " p[n]; delete left[p[n]] } # in their order
    for (name in left) rest = rest " " name
    if (run) printf "^(%s)$\n%s\n", substr(run, 2), substr(rest, 2)
  }' "$report"
