#!/usr/bin/env bash
# Configures and builds one preset (default: release) into build/PRESET.
#   tools/build.sh [PRESET [TARGET...]]        e.g.  tools/build.sh asan heddle_tests_unit
# HEDDLE_UNITS=ON compiles the files of a folder as one (cmake/units.cmake): a build from nothing takes half the time.
# As many jobs as there are processors, but no more than memory allows (about 1.5 GB a compiler).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
shift || true

jobs=$(nproc)
memory_jobs=$(awk '/^MemAvailable:/{print int($2 / 1500000)}' /proc/meminfo)
[ "$memory_jobs" -ge 1 ] || memory_jobs=1
[ "$jobs" -le "$memory_jobs" ] || jobs=$memory_jobs

arguments=()
[ -z "${HEDDLE_UNITS:-}" ] || arguments+=("-DHEDDLE_UNITS=$HEDDLE_UNITS")
command -v ccache >/dev/null && arguments+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
export CCACHE_SLOPPINESS=pch_defines,time_macros  # without it, ccache keeps nothing that uses a precompiled header (HEDDLE_PCH)
cmake --preset "$preset" "${arguments[@]}"
targets=()
[ $# -eq 0 ] || targets=(--target "$@")
cmake --build "build/$preset" -j "$jobs" "${targets[@]}"
