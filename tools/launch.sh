#!/usr/bin/env bash
# Starts the ranks of a job on this machine, labels and merges their output, and ends all of them
# when one fails.
# Usage: tools/launch.sh -n RANKS [--restarts N [--least M]] [--unbound] PROGRAM [ARGUMENT ...]
#   -n RANKS       how many processes
#   --restarts N   after a failure all ranks are started again, N times at most
#   --least M      where the same rank is the first to fail in two starts one after the other, the
#                  next start has a rank less, but M at least
#   --unbound      all ranks share all processors; else each has a part of its own, if all parts
#                  have the same size
# Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, WEFT_RENDEZVOUS (a file in which
# the ranks meet), WEFT_JOB_ID and WEFT_RESTART (how often the job was started before). Signals
# that end this script go to the ranks. The status is that of the rank that failed first; of ranks
# that ended together, of one that a signal ended, whom the others missed. It is 128 and the
# signal's number where a signal ended that rank.
set -uo pipefail

fail() { echo "tools/launch.sh: $1" >&2; exit 2; }
usage() {
  echo "tools/launch.sh: $1" >&2
  sed -n '4,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
is_number() { [[ $1 =~ ^[0-9]{1,4}$ ]] || fail "$2 takes a number, not '$1'"; }

ranks=0 restarts=0 least= bound=1
while (($#)); do
  case $1 in
  -n) is_number "${2-}" -n; ranks=$2; shift 2 ;;
  --restarts) is_number "${2-}" --restarts; restarts=$2; shift 2 ;;
  --least) is_number "${2-}" --least; least=$2; shift 2 ;;
  --unbound) bound=; shift ;;
  -n?*) usage "a space goes between -n and the number, in '$1'" ;;
  -*) usage "there is no option '$1'; options of the program come after it" ;;
  *) break ;;
  esac
done
((ranks > 0)) || usage "-n says how many ranks, at least 1"
(($# > 0)) || usage "there is no program to start"
if [[ -n $least ]]; then
  ((restarts > 0)) || fail "--least says how starts after the first go, and needs --restarts"
  ((least > 0 && least <= ranks)) || fail "--least $least is not 1 to the $ranks ranks of -n"
fi
# A name without a slash is looked for in PATH; bash names a file there that is not executable, too.
found=$(type -P -- "$1") || found=
if [[ ! -x $found ]]; then
  [[ $1 == */* && -d $1 ]] && fail "'$1' is a folder; name a program in it"
  [[ $1 == */* && -e $1 ]] && fail "'$1' is not executable; chmod +x it, or name its interpreter"
  [[ -f $1 ]] && fail "there is no program '$1' in PATH; the file here is ./$1"
  fail "there is no program '$1'"
fi

# Seconds that the others have to say what they saw when one has failed, and that ranks may take to
# end after they were told to.
last_words=1 grace=5
folder=$(mktemp -d) || fail "no temporary folder"
trap 'rm -rf "$folder"' EXIT
failed_before= # the rank that failed first, in the start before
declare -A rank_of=() # of processes that have not ended
groups=() labels=()
signal=

# A rank ends with this script also where SIGKILL leaves it no time to say so.
with_launcher=(setpriv --pdeathsig KILL)
"${with_launcher[@]}" true 2>/dev/null || with_launcher=()

# The processors that this script may use, those of a core, a socket and a memory side by side.
processors=()
if [[ -n $bound ]] && allowed=$(taskset -cp $$ 2>/dev/null); then
  mapfile -t processors < <(
    lscpu -p=NODE,SOCKET,CORE,CPU 2>/dev/null | grep -v '^#' | sort -t, -n -k1,1 -k2,2 -k3,3 -k4,4 |
      awk -F, -v allowed="${allowed##*: }" '
        BEGIN {
          for (n = split(allowed, runs, ","); n > 0; --n) {
            split(runs[n] "-" runs[n], ends, "-")
            for (cpu = ends[1]; cpu <= ends[2]; ++cpu) may[cpu] = 1
          }
        }
        $4 in may { print $4 }')
fi

# Sets `binding`, which starts a rank on its part of them. Threads of one rank that go to another's
# processor make that one late, and all wait for the last.
bind_rank() {
  local part=$((${#processors[@]} / ranks)) IFS=,
  binding=()
  ((part > 0 && part * ranks == ${#processors[@]})) || return
  binding=(taskset -c "${processors[*]:$1 * part:part}")
}

# Each rank is a group of processes of its own, so that what it has started ends with it.
signal_all() { for group in "${groups[@]}"; do kill -"$1" -- "-$group" 2>/dev/null; done; }
for name in HUP INT TERM; do
  trap "signal=$name; signal_all $name" "$name"
done

# Line by line, so that lines of different ranks do not mix. It ends with the output. (A named pipe
# is opened by the process that reads it: that waits for the one that writes.)
label() { (trap '' HUP INT TERM; exec sed -u "s/^/[$1] /" <"$2") & labels+=($!); }

start_rank() {
  local rank=$1 restart=$2 binding
  bind_rank "$rank"
  rm -f "$folder"/{out,err}."$rank"
  mkfifo "$folder"/{out,err}."$rank" || fail "no named pipes in $folder"
  label "$rank" "$folder/out.$rank"
  label "$rank" "$folder/err.$rank" >&2
  set -m
  RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$ranks \
    WEFT_RENDEZVOUS=$folder/meet.$restart WEFT_JOB_ID=launch.$$.$restart WEFT_RESTART=$restart \
    "${with_launcher[@]}" "${binding[@]}" "${@:3}" >"$folder/out.$rank" 2>"$folder/err.$rank" </dev/null &
  set +m
  rank_of[$!]=$rank
  groups+=($!)
}

# "by signal 9 (KILL)", "with status 3".
how() { if (($1 > 128 && $1 < 193)); then echo "by signal $(($1 - 128)) ($(kill -l $(($1 - 128))))"; else echo "with status $1"; fi; }

# Of ranks that have ended by now, one that a signal ended is the cause: the others failed because
# it had gone, though their end may be seen first. Sets rank and status.
blame_signal() {
  ((status > 128)) && return
  sleep 0.05 # what ended just before may be unknown to the shell yet
  local process running
  running=" $(jobs -pr | tr '\n' ' ') "
  for process in "${!rank_of[@]}"; do
    [[ $running == *" $process "* ]] && continue
    wait "$process"
    local its=$?
    ((its > 128)) && { rank=${rank_of[$process]} status=$its; return; }
  done
}

# Until all have ended, for so many seconds.
wait_for_ranks() {
  local tries=$(($1 * 20)) process left
  while ((tries-- > 0)); do
    left=0
    for process in "${!rank_of[@]}"; do kill -0 "$process" 2>/dev/null && left=1; done
    ((left)) || return
    sleep 0.05
  done
}

# Tells ranks that still run to end, and kills what does not; returns when all output is out.
end_all() {
  [[ -n $signal ]] || wait_for_ranks "$last_words"
  ((${#rank_of[@]})) && signal_all TERM
  signal_all CONT # a stopped process takes a signal when it goes on
  wait_for_ranks "$grace"
  signal_all KILL
  ((${#groups[@]})) && wait "${groups[@]}" 2>/dev/null
  # A rank that was killed before it had opened its pipes has left readers without a writer.
  local pipe label tries=$((grace * 20)) left=1
  for pipe in "$folder"/{out,err}.*; do [[ -p $pipe ]] && : <>"$pipe"; done
  # What a rank has started in a session of its own may hold the output for ever.
  while ((left && tries-- > 0)); do
    left=0
    for label in "${labels[@]}"; do kill -0 "$label" 2>/dev/null && left=1; done
    ((left)) && sleep 0.05
  done
  ((left)) && kill "${labels[@]}" 2>/dev/null
  rank_of=() groups=() labels=()
}

for ((restart = 0; ; ++restart)); do
  for ((rank = 0; rank < ranks; ++rank)); do
    [[ -n $signal ]] || start_rank "$rank" "$restart" "$@"
  done
  status=0
  while ((${#rank_of[@]})); do
    [[ -n $signal ]] && break
    wait -n -p process "${!rank_of[@]}" 2>/dev/null
    status=$?
    # A signal of this script's ended the wait if it gave no process; the variable is unset then.
    [[ -n $signal ]] && break
    [[ -n ${process-} ]] || continue
    rank=${rank_of[$process]}
    unset "rank_of[$process]"
    if ((status)); then
      blame_signal 2>/dev/null
      echo "tools/launch.sh: rank $rank of $ranks ended $(how $status); ending the others" >&2
      break
    fi
  done
  end_all
  if [[ -n $signal ]]; then
    echo "tools/launch.sh: ended by $signal" >&2
    exit $((128 + $(kill -l "$signal")))
  fi
  ((status)) || exit 0
  ((restart < restarts)) || exit $status
  all="all ranks"
  if [[ -n $least && $rank == "$failed_before" ]] && ((ranks > least)); then
    ((--ranks))
    all="$ranks ranks" rank=
    echo "tools/launch.sh: rank $failed_before cannot come back" >&2
  fi
  failed_before=$rank
  echo "tools/launch.sh: starting $all again ($((restart + 1)) of $restarts)" >&2
done
