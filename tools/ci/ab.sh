#!/usr/bin/env bash
# ab.sh runs `tare ab` for a CI job, and writes its reports. action.yml and templates/gitlab-ab.yml call it.
# Its inputs are environment variables. They become arguments of tare as they are: no shell evaluates them.
#
# - TARE_PROGRAM: a built tare, with tare-agent beside it, or a wheel or archive (tar.gz) of a release. Without it, bin/tare.
# - TARE_ARGUMENTS: arguments of tare ab, one a line, such as --mesh=envoy, or -- before each of two commands.
# - TARE_GATES: gates, one a line. Without one, tare's default.
# - TARE_DETECT: --detect.
# - TARE_MAX_TIME: --max-time.
# - TARE_UNDECIDED: exit code of an undecided gate, pass (0), fail (4), or empty (5).
# - TARE_FROM: results directory of an earlier run, to be decided instead of a new one.
# - TARE_OUT: directory for the results (run), comment.md, junit.xml and report.html.
set -euo pipefail
out=${TARE_OUT:-tare-ab}
case $out in *$'\n'*) echo "TARE_OUT has several lines" >&2; exit 2 ;; esac
case ${TARE_UNDECIDED:-} in '' | pass | fail) ;; *) echo "TARE_UNDECIDED is neither pass nor fail" >&2; exit 2 ;; esac

case ${TARE_PROGRAM:-} in
  '') tare=$(cd "$(dirname "$0")/../.." && pwd)/bin/tare ;;
  *.whl | *.tar.gz)
    unpacked=$(mktemp -d)
    trap 'rm -rf "$unpacked"' EXIT
    case $TARE_PROGRAM in
      *.whl) python3 -m zipfile -e "$TARE_PROGRAM" "$unpacked" ;;
      *) tar -xzf "$TARE_PROGRAM" -C "$unpacked" ;;
    esac
    tare=$(find "$unpacked" -type f -name tare)
    chmod 755 "${tare:?no tare in $TARE_PROGRAM}"*
    ;;
  *) tare=$(cd "$(dirname -- "$TARE_PROGRAM")" && pwd)/$(basename -- "$TARE_PROGRAM") ;;
esac

lines() { printf '%s\n' "$1" | sed 's/\r$//; s/^[[:space:]]*//; s/[[:space:]]*$//; /^$/d'; }
output() { [ -z "${GITHUB_OUTPUT:-}" ] || printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; }

mapfile -t arguments < <(lines "${TARE_ARGUMENTS:-}")
gates=()
while IFS= read -r gate; do gates+=(--gate "$gate"); done < <(lines "${TARE_GATES:-}")
[ -z "${TARE_DETECT:-}" ] || gates+=(--detect "$TARE_DETECT")

mkdir -p "$out"
code=0
if [ -n "${TARE_FROM:-}" ]; then
  run=$TARE_FROM
  again=("$tare" ab --from "$run" "${gates[@]}")
  "${again[@]}" || code=$?
else
  run=$out/run
  again=("$tare" ab --from "$run")
  "$tare" ab "${gates[@]}" --max-time "${TARE_MAX_TIME:-10m}" --plain --out "$run" "${arguments[@]}" || code=$?
fi
case $code in
  0) outcome=holds ;;
  4) outcome=breached ;;
  5) outcome=undecided ;;
  *) output outcome failed; exit "$code" ;;
esac

# The exit code of a replay is that of the gates again.
report() { "${again[@]}" --undecided pass --format "$1" || [ $? -eq 4 ]; }
report comment >"$out/comment.md"
report junit >"$out/junit.xml"
# The page of an earlier run may come from outside: it is made again.
if [ -z "${TARE_FROM:-}" ] && [ -e "$run/report.html" ]; then cp "$run/report.html" "$out/report.html"; else "$tare" report "$run" --format html -o "$out/report.html"; fi
if [ -n "${GITHUB_ACTIONS:-}" ]; then # an annotation, in one line: GitHub obeys lines of the log
  case $outcome in breached) level=error ;; holds) level=notice ;; *) level=warning ;; esac
  report decision | awk -v level="$level" '{ gsub(/%/, "%25"); gsub(/\r/, "%0D"); text = text (NR > 1 ? "%0A" : "") $0 } END { print "::" level " title=tare ab::" text }'
fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then cat "$out/comment.md" >>"$GITHUB_STEP_SUMMARY"; fi
output outcome "$outcome"
output results "$out"
output comment "$out/comment.md"

case $outcome/${TARE_UNDECIDED:-} in
  undecided/pass) exit 0 ;;
  undecided/fail) exit 4 ;;
  *) exit "$code" ;;
esac
