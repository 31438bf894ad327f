#!/usr/bin/env bash
# Fails if a process of a test died, by a report of `go test -json`: a test without an end, or a package that failed
# without a failed test. gotestsum repeats only tests that failed, so tests that the process had not begun would be missed.
#
#   tools/ended.sh REPORT
set -euo pipefail
awk -F'"' '
  $8 == "start" { failed[$12] = 0 }
  $14 == "Test" && $8 == "run" { open[$12 "." $16]++ }
  $14 == "Test" && $8 ~ /^(pass|fail|skip)$/ { open[$12 "." $16]--; if ($8 == "fail") failed[$12] = 1 }
  $14 != "Test" && $8 == "fail" && !failed[$12] { print $12 ": failed without a failed test"; died = 1 }
  END {
    for (test in open) if (open[test] > 0) { print test ": did not end"; died = 1 }
    exit died
  }' "$1" || { echo "a process of these tests was killed, ran out of memory or ended itself"; exit 1; }
