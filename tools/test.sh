#!/usr/bin/env bash
# Sets up, builds and runs all tests; ends with ctest's closing lines. Tests that had no device or no data to run on are
# listed by name; what failed cases said is shown once more, without what passed around them. Further arguments go to
# ctest, e.g.  tools/test.sh -L unit
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh || exit 1
tools/build.sh release || exit 1

log=build/release/ctest.log
# one more than there are processors: the ranks of the entry `distributed` wait for each other for most of its time
ctest --test-dir build/release --output-on-failure --no-tests=error --parallel "$(($(nproc) + 1))" "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

echo
if grep -hE '^\[  SKIPPED \] [^ ]+ \(' build/release/Testing/Temporary/LastTest.log >build/release/skipped.log 2>/dev/null; then
  echo "skipped tests ($(wc -l <build/release/skipped.log)); the reasons stand in build/release/Testing/Temporary/LastTest.log:"
  sed -E 's/^\[  SKIPPED \] ([^ ]+).*/  \1/' build/release/skipped.log
else
  echo "skipped tests: none"
fi
# the log of all tests is long: what a failed case said stands at the end as well
awk '/: Failure$/ {shown = 1} /^\[ +RUN/ {lines = 0} shown && lines++ < 30 {print substr($0, 1, 400)} /^\[  FAILED  \]/ {shown = 0}' \
    build/release/Testing/Temporary/LastTest.log >build/release/failed.log 2>/dev/null
[ -s build/release/failed.log ] && { echo "what failed:"; head -200 build/release/failed.log; }
grep -A99 -E '^[0-9]+% tests passed' "$log" || true
exit "$status"
