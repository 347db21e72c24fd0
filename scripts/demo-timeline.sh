#!/usr/bin/env bash
# Draws a timeline of the demo from the events that the steps noted, and from
# the grants and releases in the server's log.
#
#   usage: demo-timeline.sh EVENTS SERVER-LOG
set -o errexit -o nounset -o pipefail

# value KEY LINE prints what a line of the log says for the key.
value() {
  [[ " $2" =~ \ $1=(\"([^\"]*)\"|([^ ]*)) ]] || return 0
  printf '%s' "${BASH_REMATCH[2]}${BASH_REMATCH[3]}"
}

# A line of the log, time=…T13:55:42.123Z level=INFO msg=granted owner=step-1 …,
# becomes a line like those of the events: milliseconds of the day, owner, what.
log_events() {
  local line owner what
  local clock='T([0-9]{2}):([0-9]{2}):([0-9]{2})\.([0-9]{3})'
  while IFS= read -r line; do
    owner=$(value owner "$line")
    [[ -n $owner && $line =~ $clock ]] || continue
    local h=${BASH_REMATCH[1]} m=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]} ms=${BASH_REMATCH[4]}
    case $(value msg "$line") in
      granted) what="gets the lease after $(value waited "$line")" ;;
      'release delayed') what="is to give it back in $(value delay "$line"), whatever happens" ;;
      queued) what="waits, at place $(value place "$line")" ;;
      released) what="gives it back after $(value held "$line")" ;;
      *) continue ;;
    esac
    printf '%d %s %s\n' "$((((10#$h * 60 + 10#$m) * 60 + 10#$s) * 1000 + 10#$ms))" "$owner" "$what"
  done
}

declare -A lane holds runs failed over
order=()

why() { # why the owner gives the lease back
  if [[ -n ${runs[$1]:-} ]]; then
    printf ': late, while its installer goes on'
  elif [[ -n ${failed[$1]:-} ]]; then
    printf ': to swap it for another'
  else
    printf ': at the end'
  fi
}

mark() { # the owner's column
  local column=.
  [[ -z ${runs[$1]:-} ]] || column=-
  [[ -z ${holds[$1]:-} ]] || column='#'
  [[ -z ${over[$1]:-} ]] || column=' '
  lane[$1]+=$column
}

start='' tick=0
while read -r at owner what; do
  [[ -n $start ]] || start=$at
  ((at >= start)) || at=$((at + 86400000)) # midnight
  if [[ -z ${lane[$owner]+known} ]]; then
    order+=("$owner")
    lane[$owner]=''
  fi
  for (( ; tick < (at - start) / 100; tick++)); do
    for o in "${order[@]}"; do mark "$o"; done
  done
  case $what in
    gets*) holds[$owner]=1 ;;
    gives*)
      holds[$owner]=''
      what+=$(why "$owner")
      ;;
    'installer starts'*) runs[$owner]=1 ;;
    'installer ends'*)
      runs[$owner]='' failed[$owner]=''
      [[ $what != *4 ]] || failed[$owner]=1
      ;;
    ended*) over[$owner]=1 ;;
  esac
  hundredths=$(((at - start + 5) / 10))
  printf '%3d.%02d s  %s  %s\n' "$((hundredths / 100))" "$((hundredths % 100))" "$owner" "$what"
done < <({ cat "$1" && log_events <"$2"; } | sort -n -s -k 1,1)

printf '\n# holds the lease   - installs on without it   . waits      (a column is 0.1 s)\n\n'
for o in "${order[@]}"; do printf '%s  %s\n' "$o" "${lane[$o]}"; done
