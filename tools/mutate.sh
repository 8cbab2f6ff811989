#!/usr/bin/env bash
# Do the tests notice? Makes 200 small faults (mutants) in the library and runs, for each, the tests that reach it: a
# night's check.
#   tools/mutate.sh                            all steps: draw build reach run table
#   tools/mutate.sh run table --only survived  the runs again of those that lived; more: tools/mutate.sh --help
# A mutant is a changed relation, operator, number, condition, return value or order of arguments, or a statement left
# out, drawn by --seed from the sources of core, autograd, nn, data, io, train and from shaders/. All are built into one
# copy of the tree (build/mutants/tree) and chosen by a number in the environment, so that 200 mutants cost one build. A
# mutant is killed when a test fails, ends the process, or takes more than ten times as long.
# Results: build/mutants/results.jsonl. What is known about survivors: docs/mutants.md.
# Needs python3-clang (Debian) beside what tools/setup.sh installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'import clang.cindex' 2>/dev/null; then python=$candidate && break; fi
done
[ -n "$python" ] || { echo "mutate: no Python with clang's bindings; install python3-clang" >&2; exit 1; }
[ $# -gt 0 ] || set -- draw build reach run table
PYTHONDONTWRITEBYTECODE=1 exec "$python" tools/mutate/mutate.py "$@"
