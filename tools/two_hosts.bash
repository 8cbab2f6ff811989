# Two network namespaces that stand for two hosts, each with $per_host ranks (1); sourced behind ranks.bash.
#   open_hosts LETTER TOOL...         both namespaces, whose names=(FIRST SECOND) have that letter and $id, and $folder
#                                     with what mpirun starts on the second one; all go when the script ends. Skips
#                                     where there is no root, or a tool is not installed
#   link_hosts RATE                   a pair of veth between them, 10.203.0.1 and 10.203.0.2, of that rate (tc's tbf)
#   remove_hosts                      what the script's own trap on EXIT has to do, if it sets one
#   on_both SUBNET WORDS...           runs a program as $per_host ranks on each, with addresses SUBNET.1 and SUBNET.2
#   train_on_both SUBNET OUT OPTIONS  trains with addresses SUBNET.1 and SUBNET.2, into the folder OUT; prints the last
#                                     line of the run. What a rank says stands in $folder/out and $folder/error
# shellcheck shell=bash disable=SC2154
open_hosts() {
  local name
  [ "$(id -u)" = 0 ] || skip "root is needed to make network namespaces"
  need ip mpirun unshare "${@:2}"
  id=$$ folder=$(mktemp -d)
  names=("h$1a$id" "h$1b$id")
  trap remove_hosts EXIT
  for name in "${names[@]}"; do
    ip netns add "$name" 2> "$folder/error" || skip "no network namespace can be made ($(cat "$folder/error"))"
    ip netns exec "$name" ip link set lo up
  done
  # The other host is a namespace with a name of its own.
  cat > "$folder/agent" << AGENT
#!/usr/bin/env bash
shift
exec ip netns exec ${names[1]} unshare --uts bash -c "hostname ${names[1]}; \$*"
AGENT
  chmod +x "$folder/agent"
}
link_hosts() {
  local end in
  ip link add hd0 netns "${names[0]}" type veth peer name hd1 netns "${names[1]}" 2> "$folder/error" ||
    skip "no pair of veth can be made ($(cat "$folder/error"))"
  for end in 0 1; do
    in=(ip netns exec "${names[$end]}")
    "${in[@]}" ip addr add "10.203.0.$((end + 1))/24" dev "hd$end"
    # One packet is one frame, so that its headers count.
    "${in[@]}" ip link set "hd$end" gso_max_segs 1 up
    "${in[@]}" tc qdisc add dev "hd$end" root tbf rate "$1" burst 64kb latency 200ms
  done
}
remove_hosts() {
  local name
  for name in "${names[@]}"; do ip netns del "$name" 2> /dev/null || true; done
  rm -rf "$folder"
}
on_both() {
  local subnet=$1 processors=$(($(nproc) > 1 ? $(nproc) / 2 : 1))
  shift
  ip netns exec "${names[0]}" unshare --uts bash -c 'hostname '"${names[0]}"'; exec "$@"' bash \
    env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HEDDLE_QUIET=1 \
    mpirun --host "$subnet.1:${per_host:-1},$subnet.2:${per_host:-1}" --oversubscribe \
    --mca plm_rsh_agent "$folder/agent" --mca btl tcp,self \
    --mca oob_tcp_if_include "$subnet.0/24" --mca btl_tcp_if_include "$subnet.0/24" --mca mpi_yield_when_idle 1 \
    --bind-to none -x POCL_MAX_PTHREAD_COUNT=$processors -x POCL_CPU_MAX_CU_COUNT=$processors \
    -x LP_NUM_THREADS=$processors -x HEDDLE_QUIET "$@"
}
train_on_both() {
  local subnet=$1 out=$2
  shift 2
  on_both "$subnet" "$heddle" train "$@" --json --device "${DEVICE:-opencl:0}" \
    --out "$out" --limit-test 16 --set log.eval_every=100000000 --set checkpoint.every=100000000 \
    > "$folder/out" 2> "$folder/error" || { cat "$folder/error" >&2; exit 1; }
  grep '"event":"done"' "$folder/out"
}
