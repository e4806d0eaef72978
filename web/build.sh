#!/usr/bin/env bash
# Builds the console into dist, which is committed and becomes part of the program. Nobody needs it to build or run Mneme.
#   web/build.sh           installs what package-lock.json names, checks the types and builds in place
#   web/build.sh --check   does the same elsewhere, and fails where the committed dist differs
#   web/build.sh --types   only writes src/api/schema.d.ts, from the description that the server of this checkout serves
set -euo pipefail
cd "$(dirname "$0")"

mode=${1:-}
case $mode in
'' | --check | --types) ;;
*)
  echo 'usage: web/build.sh [--check|--types]' >&2
  exit 2
  ;;
esac

work=$(mktemp -d)
server=
finish() {
  # It ends before its folder goes: a store whose files are gone may never close.
  [[ -z $server ]] || { kill "$server" 2>/dev/null && wait "$server"; } || true
  rm -rf "$work"
}
trap finish EXIT

if [[ ! -f node_modules/.package-lock.json || package-lock.json -nt node_modules/.package-lock.json ]]; then
  npm ci --no-audit --no-fund
fi

# The types of the API come from the server itself, so a route that changed shows as an error of types.
(cd .. && go build -o "$work/mneme" .)
"$work/mneme" serve --listen 127.0.0.1:0 --data "$work/data" >"$work/said" 2>&1 &
server=$!
address=
for _ in $(seq 100); do
  address=$(sed -n 's/^listening on \(http:.*\)$/\1/p' "$work/said")
  [[ -z $address ]] || break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
if [[ -z $address ]]; then
  echo 'build.sh: the server did not start:' >&2
  cat "$work/said" >&2
  exit 1
fi
# With the flag, a field that has a default may be left out of a request.
npx openapi-typescript "$address/openapi.json" -o src/api/schema.d.ts --default-non-nullable=false >/dev/null
[[ $mode != --types ]] || exit 0

npx tsc --noEmit
if [[ $mode == --check ]]; then
  npx vite build --logLevel warn --outDir "$work/dist" --emptyOutDir
  diff -r "$work/dist" dist || {
    echo 'build.sh: web/dist is not what the sources build: run web/build.sh' >&2
    exit 1
  }
else
  npx vite build --logLevel warn
fi
