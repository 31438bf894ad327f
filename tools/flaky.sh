#!/usr/bin/env bash
# Prints the tests that failed and passed when run again, from reports of gotestsum, and
# fails if there are more than two. Without such a test gotestsum writes no report.
#
#   tools/flaky.sh REPORT…
set -euo pipefail
max=2
files=()
for report; do [ ! -e "$report" ] || files+=("$report"); done
# A line of a report: "package.Test: 2 runs, 1 failures". A test without a passing run is broken
# and failed its own step already. A parent of a flaky subtest is not counted beside it.
flaky=$([ ${#files[@]} -eq 0 ] || awk '
  $(NF-3) > $(NF-1) { sub(/: [0-9]+ runs, .*/, ""); name[$0] }
  END { for (a in name) { for (b in name) if (index(b, a "/") == 1) delete name[a]; if (a in name) print a } }' "${files[@]}" | sort)
count=0
[ -z "$flaky" ] || { sed 's/^/flaky: /' <<<"$flaky"; count=$(wc -l <<<"$flaky"); }
echo "flaky tests: $count (max $max)"
[ "$count" -le "$max" ]
