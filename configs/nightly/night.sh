#!/bin/sh
# One night, from the dump to the page: score it, compare it, write a page about it.
#
#   configs/nightly/night.sh DAY          such as: night.sh "$(date +%F)"
#
# It works in the folder it is started in:
#
#   dumps/DAY         the dump of the day
#   night.yaml        options of `score`: model, idf table, baseline, columns, limits
#   scores/DAY        scores; scores/pinned is a run that stays the same, if there is one
#   pages/DAY.html    the page; pages/DAY.json the comparison
#
# Exit status: that of the first command that failed. 4: a system has become worse.
# Run it again for the same day after any failure: what is done is kept.
set -u
day=$1
by=${BY:-system}           # columns of the groups
key=${KEY:-id}             # columns that identify a row
drop=${DROP:-0.005}        # the drop to stop for

for try in 1 2 3; do
    status=0
    bertscore-beam score --quiet --config night.yaml --by $by \
        --input "dumps/$day" --output "scores/$day" --reuse 'latest:scores/*' || status=$?
    case $status in 0 | 2 | 3) break ;; esac
    [ $try -eq 3 ] || sleep "${PAUSE:-300}"
done
[ $status -eq 0 ] || exit $status

# The newest night before this one that has succeeded and was not worse itself: delete the
# pages/DAY.json of a night that was, to accept its scores. And the nights of the trend: all of them,
# but only this one if later nights are there, since a page is about the newest night it is given.
last=
nights='scores/????-??-??'
for folder in scores/????-??-??; do
    if [ "$folder" \> "scores/$day" ]; then
        nights=scores/$day
    elif [ "$folder" != "scores/$day" ] && ! grep -qs '"passed": false' "pages/${folder#scores/}.json" &&
        bertscore-beam check "$folder" > /dev/null 2>&1; then
        last=$folder
    fi
done

mkdir -p pages
set --
[ -n "$last" ] && set -- "$last"
# A link to this very night is no other run.
[ -d scores/pinned ] && ! [ scores/pinned -ef "scores/$day" ] && set -- "$@" scores/pinned
compared() {
    bertscore-beam compare "scores/$day" "$@" --quiet --key $key --by $by --fail-if-drop "$drop"
}
if [ $# -gt 0 ]; then      # not on the first night
    compared "$@" --json > "pages/$day.json" || status=$?
fi
[ $status -eq 0 ] || [ $status -eq 4 ] || exit $status

# Also of a night that is worse (4): the page begins with what has changed since one run, the newest
# good night, or the pinned run if this night is worse than that alone.
against=${1:-}
if [ $status -eq 4 ] && [ $# -eq 2 ] && compared "$1" > /dev/null 2>&1; then against=$2; fi
bertscore-beam report --quiet "$nights" \
    ${against:+--against "$against" --key $key --fail-if-drop "$drop"} \
    --by $by -o "pages/$day.html" || { page=$?; [ $page -eq 4 ] || exit $page; }
[ $status -eq 0 ] || echo "This night is worse: pages/$day.html shows where." >&2
exit $status
