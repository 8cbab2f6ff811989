#!/usr/bin/env bash
# Losses of char-gpt by ranks that have parts of its model (--mesh) beside those of one process, and the bubble of each
# pipeline beside (p-1)/(m+p-1). Prints a line for each run; ends with 1 where losses differ by more than 1e-5 of
# their size within 10 updates, or 1e-4 within all. Bubbles are measured, and mean something where each rank has a
# processor to itself. Open MPI is needed.
# Meshes with ep train a mixture of 8 experts with room for every token, beside one process that does. Rounding changes
# what a token with two equal scores picks, sooner or later: then losses part. With :all every token goes to all experts
# (--top-k 8), and nothing is picked. With :parts both have --parts 4, and the same bits: parameters have to be equal. A
# line says how far one process with --parts 4 is from one without. tp=2:sequence is tp=2 with --sequence-parallel.
#   tools/mesh_check.sh [STEPS [DEVICE [MESH...]]]      100 opencl:0 and all meshes; BUILD: the build folder
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=${1:-100} device=${2:-opencl:0}
source tools/ranks.bash
need mpirun

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 LP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HEDDLE_QUIET=1

train() {  # NAME RANKS OPTIONS...
  local name=$1 ranks=$2 words
  shift 2
  words=(train char-gpt --steps "$steps" --batch 16 --device "$device" --seed 3 --limit-test 8 --eval-every "$steps"
    --set log.sample_every=1000000 --out "$folder/$name" --json "$@")
  [ "$ranks" = 1 ] || words=(launch -n "$ranks" -- "${words[@]}")
  "$heddle" "${words[@]}" > "$folder/$name.json" 2> "$folder/log" || { cat "$folder/log"; exit 1; }
}
losses() { sed -n '/"event":"step"/s/.*"loss":\([^,}]*\).*/\1/p' "$folder/$1.json"; }
# The largest relative differences within 10 updates and within all, and whether they are too large.
differences() {  # NAME BESIDE
  paste <(losses "$2") <(losses "$1") | awk '
    { d = ($2 - $1) / $1; if (d < 0) d = -d; if (NR <= 10 && d > ten) ten = d; if (d > all) all = d }
    END { printf "%.1e within 10 updates, %.1e within %d", ten, all, NR; exit !(NR > 0 && ten <= 1e-5 && all <= 1e-4) }'
}
sha256() { sed -n '/"event":"done"/s/.*"parameters_sha256":"\([^"]*\)".*/\1/p' "$folder/$1.json"; }
bubble() { sed -n '/"event":"done"/s/.*"bubble":\([^,}]*\).*/\1/p' "$folder/$1.json"; }

failed=0
run() {  # MESH RANKS [SCHEDULE MICROBATCHES STAGES]
  local mesh=$1 ranks=$2 schedule=${3:-} microbatches=${4:-} stages=${5:-} name alone=alone options=() model=()
  [[ "$mesh" != *ep=* ]] || { alone=experts model=(--experts 8 --set model.capacity_factor=8); }
  [[ "$mesh" != *:all ]] || { alone=all model+=(--top-k 8); }
  [[ "$mesh" != *:parts ]] || { alone=parts model+=(--parts 4); }
  [ -e "$folder/$alone.json" ] || train "$alone" 1 "${model[@]}"
  name=${mesh//[=,:]/-}$schedule
  [ -z "$schedule" ] || options=(--pipeline "$schedule" --microbatches "$microbatches")
  [[ "$mesh" != *:sequence ]] || options+=(--sequence-parallel)
  train "$name" "$ranks" --mesh "${mesh%:*}" "${options[@]}" "${model[@]}"
  local text
  text=$(differences "$name" "$alone") || failed=1
  printf '%-24s %-12s %s' "$mesh" "$schedule" "$text"
  if [[ "$mesh" == *:parts ]]; then
    [ "$(sha256 "$name")" = "$(sha256 parts)" ] && [ -n "$(sha256 parts)" ] && text=equal || { text=differ failed=1; }
    printf '; parameters %s' "$text"
  fi
  [ -z "$schedule" ] || awk -v b="$(bubble "$name")" -v p="$stages" -v m="$microbatches" \
    'BEGIN { printf "; bubble %.3f, (p-1)/(m+p-1) is %.3f", b, (p - 1) / (m + p - 1) }'
  echo
}
wanted=" ${*:3} "
asked() { [ "$wanted" = "  " ] || [[ "$wanted" == *" $1 "* ]]; }
asked dp=2 && run dp=2 2
asked tp=2 && run tp=2 2
asked tp=2:sequence && run tp=2:sequence 2
asked cp=2 && run cp=2 2
if asked pp=2; then
  for schedule in gpipe 1f1b interleaved zb1p zb2p; do run pp=2 2 "$schedule" 8 2; done
fi
asked ep=4 && run ep=4 4
asked ep=4:all && run ep=4:all 4
asked dp=2,ep=2 && run dp=2,ep=2 4
for mesh in ep=2 ep=4 dp=2,ep=2; do
  asked "$mesh:parts" && run "$mesh:parts" "$([ $mesh = ep=2 ] && echo 2 || echo 4)"
done
if [ -e "$folder/parts.json" ]; then
  [ -e "$folder/experts.json" ] || train experts 1 --experts 8 --set model.capacity_factor=8
  text=$(differences parts experts) || true
  printf '%-24s %-12s %s, beside one process without\n' "one process, --parts 4" "" "$text"
fi
for mesh in dp=2,tp=2,pp=2 dp=2,tp=2,pp=2:sequence; do
  asked "$mesh" && run "$mesh" 8 1f1b 4 2
done
exit $failed
