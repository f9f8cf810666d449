#!/usr/bin/env bash
# tools/launch.sh: what ranks get, how their output comes, what happens when one fails.
# Usage: launch_test.sh LAUNCH RANK_PROGRAM
set -uo pipefail
launch=$(realpath "$1") program=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "$1"; exit 1; }
expect() { grep -qxF -- "$1" <<<"$2" || fail "expected the line '$1' in: $2"; }
# A launcher that hangs is ended, and fails the test.
launch() { timeout -k 5 60 "$launch" "$@"; }

cat >rank.sh <<'END'
echo "$RANK of $WORLD_SIZE, local $LOCAL_RANK of $LOCAL_WORLD_SIZE, restart $WEFT_RESTART, $*"
echo "an error of $RANK" >&2
case $1 in
status) [[ $RANK == 1 ]] && exit 7; exec sleep 1000 ;;
once) [[ $RANK == 1 && $WEFT_RESTART == 0 ]] && kill -9 $$; [[ $WEFT_RESTART == 0 ]] && exec sleep 1000 ;;
last) [[ $RANK == 2 ]] && exit 4; [[ $WORLD_SIZE == 3 ]] && exec sleep 1000 ;;
gone)
  [[ $RANK == 1 ]] && echo $$ >pid && mv pid pid.gone && kill -9 $$
  [[ $RANK == 2 ]] && exec sleep 1000
  until [[ -e pid.gone ]]; do sleep 0.01; done
  until stat=$(<"/proc/$(<pid.gone)/stat") 2>/dev/null; [[ -z $stat || $stat == *") Z "* ]]; do sleep 0.01; done
  exit 1 ;;
stubborn) trap '' TERM; echo $$ >"pid.$RANK"; [[ $RANK == 0 ]] && exit 3; while :; do sleep 0.1; done ;;
signal) trap 'echo "$RANK got it"; exit 0' INT; echo $$ >"pid.$RANK"; while :; do sleep 0.1; done ;;
esac
exit 0
END

out=$(launch -n 3 bash rank.sh plain "two words" 2>err) || fail "a job that succeeds: $? $out"
for rank in 0 1 2; do
  expect "[$rank] $rank of 3, local $rank of 3, restart 0, plain two words" "$out"
  expect "[$rank] an error of $rank" "$(<err)"
done

out=$(launch -n 3 bash rank.sh status 2>&1)
(($? == 7)) || fail "not the status of the rank that failed: $out"
expect "tools/launch.sh: rank 1 of 3 ended with status 7; ending the others" "$out"

# Rank 0 ends because rank 1 has gone, at the same moment: the cause is named, whichever is seen first.
out=$(launch -n 3 bash rank.sh gone 2>&1)
(($? == 137)) || fail "not the status of the rank that was killed: $out"
expect "tools/launch.sh: rank 1 of 3 ended by signal 9 (KILL); ending the others" "$out"

out=$(launch -n 2 --restarts 2 bash rank.sh once 2>&1) || fail "not restarted: $out"
expect "tools/launch.sh: rank 1 of 2 ended by signal 9 (KILL); ending the others" "$out"
expect "tools/launch.sh: starting all ranks again (1 of 2)" "$out"
expect "[0] 0 of 2, local 0 of 2, restart 1, once" "$out"
! grep -q "(2 of 2)" <<<"$out" || fail "started too often: $out"

out=$(launch -n 2 --restarts 1 bash rank.sh status 2>&1)
(($? == 7)) || fail "more restarts than were asked for: $out"
(($(grep -c "ended with status 7" <<<"$out") == 2)) || fail "not two tries: $out"

# Without a rank that fails whenever it is started.
out=$(launch -n 3 --restarts 3 --least 2 bash rank.sh last 2>&1) || fail "not with fewer ranks: $out"
expect "tools/launch.sh: starting all ranks again (1 of 3)" "$out"
expect "tools/launch.sh: starting 2 ranks again (2 of 3)" "$out"
expect "[1] 1 of 2, local 1 of 2, restart 2, last" "$out"
out=$(launch -n 3 --restarts 3 --least 3 bash rank.sh last 2>&1) && fail "with fewer ranks than the least: $out"

# Each rank has processors of its own, where they can be dealt out evenly.
cat >bound.sh <<'END'
taskset -cp $$ | sed 's/.*: //'
END
mine=$(bash bound.sh 2>/dev/null)
two=$(lscpu -p=CPU | grep -v '^#' | head -2 | paste -sd,)
if [[ $two == *,* ]] && taskset -c "$two" true 2>/dev/null; then
  out=$(taskset -c "$two" "$launch" -n 2 bash bound.sh)
  [[ $(sed 's/.*\] //' <<<"$out" | sort -n | paste -sd,) == "$two" ]] ||
    fail "two ranks do not share processors $two: $out"
  for way in "-n 2 --unbound" "-n 3" "-n 1"; do
    out=$(taskset -c "$two" "$launch" $way bash bound.sh)
    [[ $(sed 's/.*\] //' <<<"$out" | sort -u) == $(taskset -c "$two" bash bound.sh) ]] ||
      fail "$way binds: $out"
  done
else
  echo "not tested: $two is not two processors"
  [[ -z $mine || $(launch -n 1 bash bound.sh) == "[0] $mine" ]] || fail "one rank does not have all"
fi

# Ranks that do not end are killed.
out=$(launch -n 2 bash rank.sh stubborn 2>&1)
(($? == 3)) || fail "stubborn: $out"
! kill -0 "$(<pid.1)" 2>/dev/null || fail "a rank is left"

# A signal goes to the ranks.
rm -f pid.*
"$launch" -n 2 bash rank.sh signal >signal.out 2>&1 &
for ((i = 0; i < 200; ++i)); do [[ -s pid.0 && -s pid.1 ]] && break; sleep 0.05; done
sleep 0.2
kill -TERM $!
wait $!
(($? == 143)) || fail "the status after a signal: $(<signal.out)"
for rank in 0 1; do ! kill -0 "$(<pid.$rank)" 2>/dev/null || fail "rank $rank is left"; done

# Ranks do not outlive a launcher that is killed.
if setpriv --pdeathsig KILL true 2>/dev/null; then
  rm -f pid.*
  "$launch" -n 2 bash rank.sh signal >killed.out 2>&1 &
  for ((i = 0; i < 200; ++i)); do [[ -s pid.0 && -s pid.1 ]] && break; sleep 0.05; done
  kill -KILL $!
  wait $! 2>/dev/null
  for rank in 0 1; do
    for ((i = 0; i < 200; ++i)); do kill -0 "$(<pid.$rank)" 2>/dev/null || break; sleep 0.05; done
    ((i < 200)) || fail "rank $rank outlives its launcher"
  done
fi

for wrong in "-n 2" "-n x true" "true" "-n 2 ./none" "-n 2 --restarts -1 true"; do
  launch $wrong >/dev/null 2>&1
  (($? == 2)) || fail "'$wrong' is taken"
done

# What is wrong is said, not only how it goes.
: >plain.txt
mkdir folder
while IFS='|' read -r wrong what; do
  out=$(launch $wrong 2>&1)
  (($? == 2)) || fail "'$wrong' is taken: $out"
  grep -qF -- "$what" <<<"$out" || fail "expected '$what' of '$wrong' in: $out"
done <<'END'
-n2 true|a space goes between -n and the number, in '-n2'
-n 2 --foo true|there is no option '--foo'
true|-n says how many ranks
-n 2|there is no program to start
-n 2 --least 1 true|--least says how starts after the first go, and needs --restarts
-n 2 --restarts 1 --least 3 true|--least 3 is not 1 to the 2 ranks of -n
-n 2 ./plain.txt|'./plain.txt' is not executable
-n 2 plain.txt|the file here is ./plain.txt
-n 2 ./folder|'./folder' is a folder
-n 2 ./none|there is no program './none'
END

# Ranks of Weft meet; one that fails ends the job, and says why on all.
out=$(launch -n 3 "$program" gloo steps 2 0 2>&1) || fail "$out"
(($(grep -c "^\[[0-2]\] done$" <<<"$out") == 3)) || fail "$out"
out=$(launch -n 3 "$program" gloo exit 2>&1)
(($? != 0)) || fail "$out"
grep -q "^tools/launch.sh: rank [0-2] of 3 ended with status" <<<"$out" || fail "$out"
echo passed
