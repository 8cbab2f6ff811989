# What scripts of several ranks begin with, sourced in the project's folder.
#   $heddle           the program of the build folder BUILD, build/release
#   skip WHY          says so in the name of the script, and ends it with 0
#   need TOOL...      skips where one is not installed, or the program is not built
#   need_ulfm         skips where mpirun's MPI has none
#   quiet             options by which $recipe, where it would generate samples, does not
# shellcheck shell=bash
heddle=$PWD/${BUILD:-build/release}/bin/heddle
skip() { echo "$(basename "$0" .sh): $1: skipped"; exit 0; }
need() {
  local tool
  for tool in "$@"; do command -v "$tool" > /dev/null || skip "$tool is not installed"; done
  [ -x "$heddle" ] || skip "$heddle is not built"
}
need_ulfm() {
  [[ $(mpirun --version) =~ "(Open MPI) "([0-9]+) && ${BASH_REMATCH[1]} -ge 5 ]] || skip "mpirun has no ULFM"
}
# shellcheck disable=SC2034
quiet=()
[[ ${recipe:-} != *gpt* && ${recipe:-} != *lstm* ]] || quiet=(--set log.sample_every=1000000)
