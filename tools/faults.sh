#!/usr/bin/env bash
# Lets every allocation, open, write (whole, by half, once, for good), fsync, rename and map of a small training run
# fail, one after the other: 47,000 runs, hours.
#   tools/faults.sh [filter of tests]        BUILD: the build folder, build/release; EVERY=50: only every 50th; FROM=45600 TO=45700: only those
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -z "${FROM:-}" ] || export HEDDLE_FAULTS_FROM=$FROM
[ -z "${TO:-}" ] || export HEDDLE_FAULTS_TO=$TO
HEDDLE_FAULTS="${EVERY:-1}" "${BUILD:-build/release}/bin/heddle_tests_faults" --gtest_filter="${1:-*}"
