#!/usr/bin/env bash
# Makes _sync.py, the synchronous client, from _async.py.  With --check it only compares them.
set -euo pipefail
cd "$(dirname "$0")/src/mneme_client"
made=$(sed -e '1s/.*/"""The synchronous client. sync.sh makes this file from _async.py; change that one."""/' \
  -e 's/__aenter__/__enter__/; s/__aexit__/__exit__/; s/httpx\.AsyncBaseTransport/httpx.BaseTransport/' \
  -e 's/asyncio\.sleep/time.sleep/; s/^import asyncio$/import time/; s/aiter_lines/iter_lines/; s/aread/read/' \
  -e 's/aclose/close/g; s/async def/def/; s/async for/for/; s/async with/with/; s/await //g; s/Async//g' _async.py)
if [[ ${1:-} == --check ]]; then
  diff _sync.py <(echo "$made")
else
  echo "$made" >_sync.py
fi
