#!/usr/bin/env bash
# Takes the picture of the README, docs/xray.png: what a browser shows that follows the link of `mneme serve --demo`.
# It is the picture that the browser's test of the first start takes, with the colours of pngquant (Debian's package).
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[[ -f node_modules/.package-lock.json ]] || npm ci --no-audit --no-fund
(cd .. && go build -o "$work/mneme" .)
MNEME_BINARY=$work/mneme MNEME_ARTEFACTS=$work npx vitest run --config e2e/vitest.config.ts -t 'the first start' e2e/tenant
pngquant --speed 1 --force --output ../docs/xray.png 128 "$work/first-xray.png"
