#!/usr/bin/env bash
# Ranks that are killed (SIGKILL) at random: what is left has to be a whole checkpoint, and the run has to go on from it
# to the bits of a run that nobody disturbed. Prints a line for each kill, the figures last; ends with 1 at the first
# thing that is wrong. Open MPI and python3 are needed (tools/checkpoint_check.py computes checksums a second time);
# without them the script says so and ends with 0.
#   tools/kill_check.sh save [COUNT]        of 2 ranks, one while a checkpoint is being written; 100 times
#   tools/kill_check.sh restart [COUNT]     of 4 ranks, one; `heddle launch --restarts 1 --fewer-ranks` goes on; 50
#   tools/kill_check.sh elastic [COUNT [SHARDING [EVERY]]]
#                                           of 4 ranks, one; the others go on in the same processes: no update that
#                                           metrics.jsonl has is taken again, or with zero1 and zero2 EVERY - 1 at most
#                                           (--buddy-every, 1), none is missing; 50
#   tools/kill_check.sh launcher [COUNT]    the launcher of 4 such ranks, in turns while they start and while they
#                                           train: no process stays; 20
#   For the last two mpirun has to be one with ULFM (Open MPI 5), and HEDDLE_MPI its library where that is not found.
#   BUILD: the build folder, build/release; DEVICE: opencl:0; SEED: of the choices, from the clock; KEEP: a folder for
#   the runs, which stays
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=${1:-save}
case $mode in
  save) count=${2:-100} ;;
  restart) count=${2:-50} ;;
  elastic) count=${2:-50} sharding=${3:-none} every=${4:-1} ;;
  launcher) count=${2:-20} ;;
  *) echo "kill_check: save, restart, elastic or launcher, not $mode"; exit 2 ;;
esac
checker=$PWD/tools/checkpoint_check.py
source tools/ranks.bash
need mpirun python3

folder=${KEEP:-$(mktemp -d)}
mkdir -p "$folder"
launched=""
cleanup() {
  [ -z "$launched" ] || kill "$launched" 2> /dev/null || true
  [ -z "${stayed:-}" ] || kill -9 $stayed 2> /dev/null || true
  [ -n "${KEEP:-}" ] || rm -rf "$folder"
}
trap cleanup EXIT
export HEDDLE_QUIET=1 POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 LP_NUM_THREADS=1
RANDOM=${SEED:-$(date +%N | sed 's/^0*//')}

fail() { echo "kill_check: $1"; [ ! -f "$folder/log" ] || tail -n 20 "$folder/log"; exit 1; }
seconds() { date +%s.%N; }
since() { awk "BEGIN { print $(seconds) - $1 }"; }

# States of several megabytes, so that writing them takes a part of the time; checkpoints every few updates.
options=(mnist-mlp --set model.hidden=1024 --optimizer adamw --batch 48 --steps 100000 --sharding zero1 --limit-test 16
  --device "${DEVICE:-opencl:0}" --checkpoint-every 4 --eval-every 100000 --seed 3)

# Starts `heddle launch` with these words behind it; the ranks' process is the number of one, by their order.
launch() {
  "$heddle" launch "$@" > "$folder/log" 2>&1 &
  launched=$!
}
# The processes of the ranks, in their order, once there are so many.
ranks() {
  local mpirun found=() pid rank
  mpirun=$(pgrep -P "$launched" -x "mpirun|prterun" | head -n 1) || true
  [ -n "$mpirun" ] || return 1
  for pid in $(pgrep -P "$mpirun"); do
    rank=$(tr '\0' '\n' < "/proc/$pid/environ" 2> /dev/null | sed -n 's/^OMPI_COMM_WORLD_RANK=//p') || true
    [ -z "$rank" ] || found[rank]=$pid
  done
  [ "${#found[@]}" = "$1" ] || return 1
  pids=("${found[@]}")
}
# wait_for WHAT...: until the command succeeds; the run must not end before. Looks are counted, not seconds, so that the
# script may be stopped for a while.
wait_for() {
  local looks=0 most=10000
  until "$@"; do
    kill -0 "$launched" 2> /dev/null || fail "the run ended by itself while waiting for: $*"
    looks=$((looks + 1))
    [ $looks -lt $most ] || fail "looked $most times for: $*"
    sleep 0.01
  done
}
# The step of the newest file that names parts; 0: none.
newest() {
  local name last=0
  for name in "$1"/checkpoints/step-????????.safetensors; do [ ! -f "$name" ] || last=$name; done
  [ "$last" = 0 ] || last=$(basename "$last" .safetensors)
  echo $((10#${last#step-}))
}
# Whether files lie there that belong to a save that is not over.
saving() {
  local part
  for part in "$1"/checkpoints/*.tmp-*; do [ ! -e "$part" ] || return 0; done
  for part in "$1"/checkpoints/*.rank-*.safetensors; do
    [ ! -e "$part" ] || [ -e "${part%.rank-*}.safetensors" ] || return 0
  done
  return 1
}
# Whether a checkpoint lies there that is newer.
saved_after() { [ "$(newest "$1")" -gt "$2" ]; }
# The SHA-256 of a model's tensors: what lies behind the header, which names the options.
tensors() {
  local header
  header=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
  tail -c "+$((header + 9))" "$1" | sha256sum | cut -d ' ' -f 1
}
finish() { wait "$launched" && code=0 || code=$?; launched=""; }
# Of numbers, one a line: the middle one and the last one.
middle_and_most() {
  sort -g | awk '{ a[NR] = $1 } END { printf "median %.2f, most %.2f", a[int((NR + 1) / 2)], a[NR] }'
}

kill_while_saving() {
  local run=$folder/run last=0 hits=0 n victim delay step began half
  for ((n = 1; n <= count; ++n)); do
    began=$(seconds)
    if [ "$n" = 1 ]; then launch -n 2 -- train "${options[@]}" --out "$run"; else launch -n 2 -- resume "$run"; fi
    wait_for ranks 2
    wait_for saved_after "$run" $((last + 4 * (RANDOM % 2)))
    victim=$((RANDOM % 2)) delay=0.0$((RANDOM % 4))$((RANDOM % 10))
    wait_for saving "$run"
    sleep "$delay"
    kill -9 "${pids[victim]}"
    finish
    [ "$code" = 3 ] || fail "kill $n: exit code $code instead of 3"
    ! grep -q "going on from" "$folder/log" || fail "kill $n: the run met a checkpoint that was not whole"
    step=$(newest "$run")
    [ "$step" -gt "$last" ] || fail "kill $n: the newest checkpoint is of step $step, after $last before"
    python3 "$checker" "$run/checkpoints" || fail "kill $n: a checkpoint is not whole"
    if saving "$run"; then hits=$((hits + 1)) half="a save was half-written"; else half="none was half-written"; fi
    echo "kill $n: rank $victim, checkpoint of step $step is whole, $half, $(since "$began") s"
    last=$step
  done
  step=$((last + 3))
  "$heddle" launch -n 2 -- resume "$run" --limit-steps $step > "$folder/log" 2>&1 || fail "the run does not go on"
  "$heddle" launch -n 2 -- train "${options[@]}" --limit-steps $step --out "$folder/whole" > "$folder/log" 2>&1 ||
    fail "the undisturbed run fails"
  [ "$(tensors "$run/model.safetensors")" = "$(tensors "$folder/whole/model.safetensors")" ] ||
    fail "the parameters are others than those of a run that nobody disturbed"
  echo "$count kills, $hits of them with a half-written save left behind: a whole checkpoint each time, parameters" \
    "after $step updates are those of an undisturbed run"
}

goes_on() { grep -q "go on from the run's last checkpoint" "$folder/log"; }
# Whether a line of updates stands behind that line.
last_line() { grep -n "\"event\":\"$2\"" "$1/metrics.jsonl" | tail -n 1 | cut -d : -f 1; }
trains_again() { [ "$(last_line "$1" step)" -gt "$2" ]; }
started_again() { [ "$(grep -c '"event":"start"' "$1/metrics.jsonl")" = 2 ]; }

restart_with_fewer() {
  local n run copy victim killed ended started took step times=$folder/times parts=$folder/parts start
  : > "$times"
  : > "$parts"
  for ((n = 1; n <= count; ++n)); do
    run=$folder/run copy=$folder/copy
    rm -rf "$run" "$copy"
    launch -n 4 --restarts 1 --fewer-ranks -- train "${options[@]}" --limit-steps 60 --out "$run"
    wait_for ranks 4
    wait_for saved_after "$run" 0
    victim=$((RANDOM % 4))
    sleep 0.$((RANDOM % 3))$((RANDOM % 10))
    kill -9 "${pids[victim]}" || fail "restart $n: the run was over before rank $victim was killed"
    killed=$(seconds)
    wait_for goes_on
    ended=$(since "$killed")
    cp -a "$run" "$copy"
    python3 "$checker" "$copy/checkpoints" || fail "restart $n: a checkpoint is not whole"
    step=$(newest "$copy")
    wait_for started_again "$run"
    started=$(since "$killed")
    start=$(last_line "$run" start)
    wait_for trains_again "$run" "$start"
    took=$(since "$killed")
    echo "$took" >> "$times"
    echo "$ended $started $took" >> "$parts"
    sed -n "${start}p" "$run/metrics.jsonl" | grep -q "\"step\":$step," || fail "restart $n: not from step $step"
    finish
    [ "$code" = 0 ] || fail "restart $n: exit code $code"
    "$heddle" launch -n 3 -- resume "$copy" > "$folder/log" 2>&1 || fail "restart $n: the copy does not go on"
    [ "$(tensors "$run/model.safetensors")" = "$(tensors "$copy/model.safetensors")" ] ||
      fail "restart $n: the run went on to other parameters than three ranks from its checkpoint"
    echo "restart $n: without rank $victim, from step $step, $took s from the kill to the next updates" \
      "(mpirun had ended after $ended, the run began after $started)"
  done
  echo "$count restarts with 3 of 4 ranks: $(middle_and_most < "$times") s; each as three ranks from the checkpoint"
  awk '{ a += $1; b += $2 - $1; c += $3 - $2 } END { printf "of that mpirun ends %.2f, processes, devices and the " \
    "checkpoint %.2f, the first updates %.2f s (means)\n", a / NR, b / NR, c / NR }' "$parts"
}

# The numbers of the updates that stand behind line $2 of metrics.jsonl, and before line $3.
updates() { sed -n "$2,$3p" "$1/metrics.jsonl" 2> /dev/null | sed -n 's/.*"event":"step","step":\([0-9]*\),.*/\1/p'; }
trained_to() { [ "$(updates "$1" 1 '$' | tail -n 1)" -ge "$2" ] 2> /dev/null; }

go_on_without_one() {
  local n run=$folder/run victim killed took start step last back most=0 times=$folder/times steps=120 shards=()
  need_ulfm
  [ "$sharding" = none ] || shards=(--sharding "$sharding" --buddy-every "$every" --optimizer adamw)
  : > "$times"
  for ((n = 1; n <= count; ++n)); do
    rm -rf "$run"
    launch -n 4 --elastic -- train mnist-mlp --batch 48 --steps $steps --limit-test 16 --eval-every 100000 --seed 3 \
      --device "${DEVICE:-opencl:0}" --checkpoint-every 100000 "${shards[@]}" --out "$run"
    wait_for ranks 4
    wait_for trained_to "$run" $((1 + RANDOM % 60))
    victim=$((RANDOM % 4))
    kill -9 "${pids[victim]}" || fail "elastic $n: the run was over before rank $victim was killed"
    killed=$(seconds)
    wait_for started_again "$run"
    start=$(last_line "$run" start)
    wait_for trains_again "$run" "$start"
    took=$(since "$killed")
    echo "$took" >> "$times"
    finish
    [ "$code" = 0 ] || fail "elastic $n: exit code $code"
    step=$(sed -n "${start}p" "$run/metrics.jsonl" | sed 's/.*"step":\([0-9]*\),.*/\1/')
    last=$(updates "$run" 1 "$start" | tail -n 1)
    back=$((last > step ? last - step : 0))
    [ $back -lt "$every" ] || fail "elastic $n: on from update $step, after $last"
    grep -q "\"event\":\"lost\".*\"taken_back\":$back," "$run/metrics.jsonl" || fail "elastic $n: $back are not said"
    most=$((back > most ? back : most))
    [ "$(updates "$run" 1 '$' | sort -n -u | wc -l)" = $steps ] || fail "elastic $n: updates are missing"
    grep -q '"event":"done".*"ranks":3,' "$run/metrics.jsonl" || fail "elastic $n: not by three ranks"
    echo "elastic $n: without rank $victim, on from update $step ($last known), $took s from the kill to the next updates"
  done
  echo "$count times one of 4 ranks killed, $sharding: 3 went on each time, $most updates taken back at most;" \
    "$(middle_and_most < "$times") s from the kill to the next updates"
}

# The processes that were told to train into this folder; 1: none.
processes_of() { stayed=$(pgrep -f -- "--out $1( |\$)") && stayed=${stayed//$'\n'/ }; }

kill_launcher() {
  local n run killed looks what most=400 times=$folder/times
  need_ulfm
  : > "$times"
  for ((n = 1; n <= count; ++n)); do
    run=$folder/run-$n
    launch -n 4 --elastic -- train mnist-mlp --batch 48 --steps 100000 --limit-test 16 --eval-every 100000 --seed 3 \
      --device "${DEVICE:-opencl:0}" --out "$run"
    if [ $((n % 2)) = 1 ]; then
      what="starting"
      sleep $((RANDOM % 3)).$((RANDOM % 10))
    else
      what="training"
      wait_for trained_to "$run" $((1 + RANDOM % 100))
    fi
    kill -9 "$launched"
    killed=$(seconds)
    wait "$launched" 2> /dev/null || true
    launched=""
    looks=0
    while processes_of "$run"; do
      looks=$((looks + 1))
      [ $looks -lt $most ] || fail "launcher $n, $what: there still are $stayed"
      sleep 0.1
    done
    since "$killed" | tee -a "$times" | sed "s/^/launcher $n, $what: all had ended after s: /"
  done
  echo "$count launchers killed: no process stays; $(middle_and_most < "$times") s until all had ended"
}

case $mode in
  save) kill_while_saving ;;
  restart) restart_with_fewer ;;
  elastic) go_on_without_one ;;
  launcher) kill_launcher ;;
esac
