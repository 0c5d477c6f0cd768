#!/bin/sh
# One night, from the dump to the page: score it, compare it, write a page about it.
#
#   configs/nightly/night.sh DAY          such as: night.sh "$(date +%F)"
#
# It works in the folder it is started in:
#
#   dumps/DAY             the dump of the day
#   night.yaml            options of `score`: model, idf table, baseline, columns, limits
#   scores/DAY            scores
#   scores/pinned         a link to a run that stays the same. If there is none, the first night that
#                         passes a comparison pins the run that it was compared with
#   pages/DAY.html        the page; pages/DAY.json the comparison, with the verdict
#   pages/DAY.accepted    made by you: later nights are compared with this one, whatever its verdict,
#                         and it is pinned; deleted when the day is scored again
#
# Exit status: that of the first command that failed. 4: a system has become worse. 5: there are too
# few rows to tell. Run it again for the same day after any failure: what is done is kept.
set -u
case ${1-} in
????-??-??) day=$1 ;;
*) echo "Name the day of the dump, such as: $0 $(date +%F)" >&2; exit 2 ;;
esac
by=${BY:-system}           # columns of the groups
key=${KEY:-id}             # columns that identify a row
drop=${DROP:-0.005}        # the drop to stop for
# And, if they are set: CLUSTER, the column of rows that belong together, and MISSING, the largest
# share of the rows that may be missing.

mkdir -p pages || exit 1
rm -f "pages/$day.json" "pages/$day.accepted" || exit 1   # the verdict about other scores

for try in 1 2 3; do
    status=0
    bertscore-beam score --quiet --config night.yaml --by $by \
        --input "dumps/$day" --output "scores/$day" --reuse 'latest:scores/????-??-??' \
        > "pages/.$day.txt" || status=$?
    case $status in 0 | 2 | 3) break ;; esac
    [ $try -eq 3 ] || sleep "${PAUSE:-300}"
done
[ $status -eq 0 ] || cat "pages/.$day.txt"   # otherwise the page says it
rm -f "pages/.$day.txt"
[ $status -eq 0 ] || exit $status

pin=scores/pinned
is_pinned() { [ -L $pin ] || [ -e $pin ]; }
is_accepted() { [ -e "pages/${1#scores/}.accepted" ]; }
is_good() {                # a night without a verdict is not good
    is_accepted "$1" || { grep -qs '"passed": true' "pages/${1#scores/}.json" &&
        ! grep -Eqs '"passed": (false|null)' "pages/${1#scores/}.json"; }
}
accept="accept this night (touch pages/$day.accepted): the next night is compared with it, and it is pinned."
cannot_use_pin() {
    echo "$1 To go on, pin a run that was good (ln -sfn $other $pin), or $accept" >&2
    exit 2
}

# The nights before this one, newest first; and the nights of the trend: all, or only this one if there
# are later ones, since a page shows the newest night that it is given.
before=
nights='scores/????-??-??'
for folder in scores/????-??-??; do
    if [ "$folder" \> "scores/$day" ]; then
        nights=scores/$day
    elif [ "$folder" != "scores/$day" ]; then
        before="$folder $before"
    fi
done

set --
for folder in $before; do  # the newest that was not worse; `compare` refuses an incomplete one
    if is_good "$folder"; then
        set -- "$folder"
        break
    fi
done
other=${1:-scores/DAY}
other=${other#scores/}

# A night that was accepted after the last run was pinned is pinned.
for folder in $before; do
    if is_accepted "$folder"; then
        accepted=pages/${folder#scores/}.accepted
        is_later=$(find $pin -prune -newer "$accepted" 2> /dev/null)
        if ! [ $pin -ef "$folder" ] && [ -z "$is_later" ]; then
            [ -L $pin ] || ! [ -e $pin ] ||
                cannot_use_pin "$folder was accepted, but $pin is not a link: rename it."
            echo "Pinned from now on: $folder, which was accepted."
            ln -sfn "${folder#scores/}" $pin || exit 1
        fi
        break
    fi
    ! grep -qs "/$pin\"" "pages/${folder#scores/}.json" || is_pinned ||
        cannot_use_pin "$pin is gone: $folder was compared with it."
done

steady=
pinned="No run is pinned yet: the first night that passes a comparison pins the run before it."
if is_pinned; then
    [ -d $pin ] || cannot_use_pin "The run that $pin leads to is gone."
    pinned="The pinned run is $pin."
    for folder in scores/????-??-??; do
        [ $pin -ef "$folder" ] || continue
        pinned="The pinned run is ${folder#scores/}."
        ! is_accepted "$folder" || pinned="The pinned run is ${folder#scores/}, which was accepted."
        [ "$folder" = "scores/$day" ] || is_good "$folder" ||
            cannot_use_pin "$pin is $folder, which has no good verdict: run the script for it again."
    done
    # A link to this night is no other run; one to the night before is compared with already.
    [ $pin -ef "scores/$day" ] || [ $pin -ef "${1:-.}" ] || set -- "$@" $pin
    for folder; do
        ! [ $pin -ef "$folder" ] || steady=$folder
    done
fi

if [ $# -eq 0 ] && [ -n "$before" ]; then      # only the first night needs no other
    newest=${before%% *}
    earlier=${newest#scores/}
    echo "No night before $day has a good verdict: run this script again for $earlier, accept" \
        "that night (touch pages/$earlier.accepted), or delete $newest." >&2
    exit 2
fi

is_first() { echo '{"passed": true, "comparisons": [], "rankings": []}' > "pages/.$day.json" || exit 1; }
if [ $# -eq 0 ]; then
    is_first
else
    bertscore-beam compare "scores/$day" "$@" --quiet --key $key --by $by --fail-if-drop "$drop" \
        ${CLUSTER:+--cluster "$CLUSTER"} ${MISSING:+--max-missing-fraction "$MISSING"} \
        --json > "pages/.$day.json" || status=$?
fi
case $status in
0 | 4 | 5) ;;
*)
    rm -f "pages/.$day.json"
    [ $status -eq 2 ] || exit $status
    ! is_pinned || cannot_use_pin "$pinned The message above says why $day cannot be compared."
    echo "To go on, $accept" >&2
    exit 2
    ;;
esac
is_compared() { grep -qs "/$1\"" "pages/.$day.json"; }
if [ -n "$steady" ] && ! is_compared "$steady"; then
    rm -f "pages/.$day.json"
    cannot_use_pin "$pinned It is of another version: $day was not compared with it."
fi
# `compare` leaves runs of another version out. Without any other this is a first night.
if [ $# -gt 0 ] && grep -Eqs '"comparisons": *\[\]' "pages/.$day.json"; then
    set --
    status=0
    is_first
fi
# Before the verdict: a night that passed a comparison, and is good, has pinned a run.
if [ $status -eq 0 ] && [ $# -gt 0 ] && ! is_pinned && is_compared "$1"; then
    pinned="The pinned run is ${1#scores/} from now on: none was pinned, and $day passed."
    ln -s "${1#scores/}" $pin || exit 1
fi
mv "pages/.$day.json" "pages/$day.json" || exit 1    # whole, or not at all
echo "$pinned"

# Also of a night that is worse (4) or cannot be judged (5): the page begins with what has changed since
# the first run that it is worse than, or since the newest good night.
bertscore-beam report --quiet "$nights" --by $by -o "pages/$day.html" --notice "$pinned" \
    ${CLUSTER:+--cluster "$CLUSTER"} \
    ${1:+--against "$@" --key $key --fail-if-drop "$drop"} \
    ${1:+${MISSING:+--max-missing-fraction "$MISSING"}} ||
    { page=$?; [ $page -eq 4 ] || [ $page -eq 5 ] || exit $page; }
case $status in
4) echo "This night is worse: pages/$day.html shows where." >&2 ;;
5) echo "This night has too few rows to be judged: pages/$day.html shows them." >&2 ;;
esac
exit $status
