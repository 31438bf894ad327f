#!/bin/sh
# Envoy, and the processor of its filter ext_proc as a process beside it. The configuration has the path of their socket.
envoy=${TARE_ENVOY:-$(ls "${XDG_CACHE_HOME:-$HOME/.cache}"/tare/envoy-1.40.0-*/envoy)}
if [ "$1" = -c ]; then
  "$(dirname "$0")/../../bin/extproc" "$(sed -n 's|.*path: \(.*/processor\)}.*|\1|p' "$2")" &
fi
exec "$envoy" "$@"
