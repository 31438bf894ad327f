#!/usr/bin/env bash
# Prints the tests of packages that `make test` left out or shortened, by its report: an expression for -run, then their
# packages. A test that does less under -short has the attribute: t.Attr("short", "1000 experiments").
#
#   tools/left.sh REPORT PACKAGE…
set -euo pipefail
report=$1
shift
awk -F'"' -v packages="$(${GO:-go} list "$@")" '
  BEGIN { for (n = split(packages, p, "\n"); n > 0; n--) chosen[p[n]] }
  $14 == "Test" && ($12 in chosen) && ($8 == "skip" || $8 == "attr" && $18 == "Key" && $20 == "short") {
    sub("/.*", "", $16); names[$16]; left[$12]
  }
  END {
    for (name in names) run = run "|" name
    for (name in left) rest = rest " " name
    if (run) printf "^(%s)$\n%s\n", substr(run, 2), substr(rest, 2)
  }' "$report"
