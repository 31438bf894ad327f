#!/bin/sh
# postgres.sh PORT: a PostgreSQL with an empty database, which is removed at the end. PostgreSQL refuses root.
postgres=$(command -v postgres || ls /usr/lib/postgresql/*/bin/postgres | tail -1)
bin=$(dirname "$(readlink -f "$postgres")")
dir=$(mktemp -d)
as=
[ "$(id -u)" != 0 ] || { chown nobody "$dir"; as="setpriv --reuid nobody --regid nogroup --clear-groups"; }
trap 'kill -INT $pid; wait; rm -rf "$dir"' INT TERM
$as "$bin/initdb" --pgdata "$dir/data" --username tare --auth trust --no-locale --encoding UTF8 --no-sync >/dev/null &
pid=$!
wait $pid || exit
echo "host all all 127.0.0.0/8 trust" >>"$dir/data/pg_hba.conf"
$as "$bin/postgres" -D "$dir/data" -h 127.0.0.1 -p "$1" -k "" -c fsync=off -c autovacuum=off &
pid=$!
wait
