#!/usr/bin/env bash
# Builds the built-in policies, the SDK's examples and the demo's policy from source. Each module contains its manifest,
# and its SHA-256 is written beside it.
#   policies/build.sh           builds them in place
#   policies/build.sh --check   builds them in another folder and fails if the committed files differ
# You do not need it to build or run Mneme: the modules are committed.
set -euo pipefail
cd "$(dirname "$0")"

version=0.41.1
llvm=19.1.7
if ! command -v tinygo >/dev/null; then
  echo "build.sh: tinygo is not installed: https://tinygo.org/getting-started/install has it ($version is expected)" >&2
  exit 1
fi
if ! tinygo version | grep -q "version $version .*LLVM version $llvm"; then
  echo "build.sh: the modules are built by TinyGo $version with LLVM $llvm, this is: $(tinygo version)" >&2
  exit 1
fi

check=
if [[ ${1:-} == --check ]]; then
  check=$(mktemp -d)
  trap 'rm -rf "$check"' EXIT
elif [[ $# -gt 0 ]]; then
  echo "usage: policies/build.sh [--check]" >&2
  exit 2
fi

status=0
for manifest in "$PWD"/*/manifest.json "$PWD"/../sdk/policy/go/examples/*/manifest.json "$PWD"/../demo/*/manifest.json; do
  folder=${manifest%/*}
  name=${folder##*/}
  main=$folder
  [[ -d $folder/wasm ]] && main=$folder/wasm
  out=${check:-$folder}
  module=$out/$name.wasm
  (cd "$main" && WASMOPT=$OLDPWD/wasm-opt \
    tinygo build -target="$OLDPWD/policy.json" -no-debug -opt=2 -panic=trap -o "$module" .)
  go run github.com/seed-0906e6bc/mneme/sdk/policy/go/cmd/mneme-manifest "$manifest" "$module"
  chmod 644 "$module"
  (cd "$out" && sha256sum "$name.wasm" >"$name.wasm.sha256")
  for file in "$name.wasm" "$name.wasm.sha256"; do
    if ! cmp -s "$out/$file" "$folder/$file"; then
      echo "build.sh: $file differs from what its source builds" >&2
      status=1
    fi
  done
done
exit $status
