#!/bin/sh
# One night, from the dump to the page: score it, compare it, write a page about it.
#
#   configs/nightly/night.sh DAY          such as: night.sh "$(date +%F)"
#
# It works in the folder it is started in:
#
#   dumps/DAY             the dump of the day
#   night.yaml            options of `score`: model, idf table, baseline, columns, limits
#   scores/DAY            scores; scores/pinned is a run that stays the same, if there is one
#   pages/DAY.html        the page; pages/DAY.json the comparison, with the verdict
#   pages/DAY.accepted    made by you: the night was worse, and later ones are compared with it;
#                         deleted when the day is scored again
#
# Exit status: that of the first command that failed. 4: a system has become worse.
# Run it again for the same day after any failure: what is done is kept.
set -u
day=$1
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
        --input "dumps/$day" --output "scores/$day" --reuse 'latest:scores/*' || status=$?
    case $status in 0 | 2 | 3) break ;; esac
    [ $try -eq 3 ] || sleep "${PAUSE:-300}"
done
[ $status -eq 0 ] || exit $status

is_good() {                # a night without a verdict is not good
    [ -e "pages/$1.accepted" ] || { grep -qs '"passed": true' "pages/$1.json" &&
        ! grep -qs '"passed": false' "pages/$1.json"; }
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
    if is_good "${folder#scores/}"; then
        set -- "$folder"
        break
    fi
done
# A link to this very night is no other run.
[ -d scores/pinned ] && ! [ scores/pinned -ef "scores/$day" ] && set -- "$@" scores/pinned

if [ $# -eq 0 ] && [ -n "$before" ]; then      # only the first night needs no other
    newest=${before%% *}
    earlier=${newest#scores/}
    echo "No night before $day has a good verdict: run this script again for $earlier, accept" \
        "that night (touch pages/$earlier.accepted), or delete $newest." >&2
    exit 2
fi

if [ $# -eq 0 ]; then
    echo '{"passed": true, "comparisons": []}' > "pages/.$day.json" || exit 1
else
    bertscore-beam compare "scores/$day" "$@" --quiet --key $key --by $by --fail-if-drop "$drop" \
        ${CLUSTER:+--cluster "$CLUSTER"} ${MISSING:+--max-missing-fraction "$MISSING"} \
        --json > "pages/.$day.json" || status=$?
fi
[ $status -eq 0 ] || [ $status -eq 4 ] || { rm -f "pages/.$day.json"; exit $status; }
mv "pages/.$day.json" "pages/$day.json" || exit 1    # whole, or not at all

# Also of a night that is worse (4): the page begins with what has changed since the first run that it
# is worse than, or since the newest good night.
bertscore-beam report --quiet "$nights" --by $by -o "pages/$day.html" \
    ${CLUSTER:+--cluster "$CLUSTER"} \
    ${1:+--against "$@" --key $key --fail-if-drop "$drop"} \
    ${1:+${MISSING:+--max-missing-fraction "$MISSING"}} ||
    { page=$?; [ $page -eq 4 ] || exit $page; }
[ $status -eq 0 ] || echo "This night is worse: pages/$day.html shows where." >&2
exit $status
