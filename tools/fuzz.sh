#!/usr/bin/env bash
# fuzz.sh runs every fuzz target for FUZZTIME (default 20s) each and prints how many executions each
# got. Inputs of 2 KiB or less that reach new code are kept in testdata/fuzz: KEEP per target and run
# (default 0). TARGETS selects targets by a regular expression.
#
# A target that ends with "context deadline exceeded" and no input has found nothing: before Go 1.27 a
# busy machine can make the fuzzer take its own deadline for a failure (golang/go#75804).
set -euo pipefail
export GOWORK="$PWD/go.work" # both modules
go=${GO:-go} time=${FUZZTIME:-20s} keep=${KEEP:-0} targets=${TARGETS:-.}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
cache=$("$go" env GOCACHE)/fuzz
failed=()
printf '%-34s %-16s %12s %6s\n' PACKAGE TARGET EXECUTIONS NEW
while read -r dir target; do
  [[ $target =~ $targets ]] || continue
  verdict=
  # The deadline bounds a target that does not end by itself.
  if ! timeout --kill-after=10 15m "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "./$dir" >"$out" 2>&1; then
    if ! grep -q '^ *context deadline exceeded' "$out" || grep -q 'Failing input written' "$out"; then
      verdict=FAILED
      failed+=("$target")
    fi
  fi
  line=$(grep -o 'execs: [0-9]*.*new interesting: [0-9]*' "$out" | tail -1 || true)
  executions=$(sed -n 's/^execs: \([0-9]*\).*/\1/p' <<<"$line")
  new=$(sed -n 's/.*new interesting: \([0-9]*\)$/\1/p' <<<"$line")
  printf '%-34s %-16s %12s %6s %s\n' "${dir#internal/}" "$target" "${executions:-0}" "${new:-0}" "$verdict"
  [[ -z $verdict ]] || cat "$out"
  if [[ $keep -gt 0 ]]; then
    from="$cache/$("$go" list "./$dir")/$target" to="$dir/testdata/fuzz/$target"
    if [[ -d $from ]]; then
      mkdir -p "$to"
      find "$from" -type f -size -5 -printf '%T@ %p\n' | sort -rn | awk -v n="$keep" 'NR <= n' | cut -d' ' -f2- | xargs -r -I{} cp -n {} "$to/"
    fi
  fi
done < <(grep -rl --include='*_test.go' '^func Fuzz' internal cmd kube | sort | while read -r file; do
  sed -n "s|^func \\(Fuzz[A-Za-z0-9_]*\\).*|$(dirname "$file") \\1|p" "$file"
done)
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
