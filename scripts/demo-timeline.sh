#!/usr/bin/env bash
# Draws a timeline of the demo from the events that the steps noted, and from
# the grants and releases in the server's log.
#
#   usage: demo-timeline.sh EVENTS SERVER-LOG
set -o errexit -o nounset -o pipefail

# Both files become lines of: seconds of the day, owner, what.
{
  cat "$1"
  # A line of the log: time=…T13:55:42.123Z level=INFO msg=granted owner=step-1 …
  awk '
    function value(key,   found) {
      if (!match($0, " " key "=(\"[^\"]*\"|[^ ]*)")) return ""
      found = substr($0, RSTART + length(key) + 2, RLENGTH - length(key) - 2)
      gsub(/"/, "", found)
      return found
    }
    value("owner") != "" {
      match($0, /T[0-9:.]+/)
      split(substr($0, RSTART + 1, RLENGTH - 1), clock, ":")
      what = value("msg")
      if (what == "granted") what = "gets the lease after " value("waited")
      else if (what == "release delayed") what = "is to give it back in " value("delay") ", whatever happens"
      else if (what == "queued") what = "waits, at place " value("place")
      else if (what == "released") what = "gives it back after " value("held")
      else next
      printf "%.3f %s %s\n", clock[1] * 3600 + clock[2] * 60 + clock[3], value("owner"), what
    }
  ' "$2"
} | sort -n -s -k 1,1 | awk '
  { at = $1 }
  NR == 1 { start = at }
  at < start { at += 86400 } # midnight
  {
    owner = $2
    what = $0
    sub(/^[^ ]+ [^ ]+ /, "", what)
    if (!(owner in lane)) { order[++lanes] = owner; lane[owner] = "" }
    for (t = int((at - start) * 10); tick < t; tick++) # a column for each 0.1 s
      for (i = 1; i <= lanes; i++) lane[order[i]] = lane[order[i]] mark(order[i])
    if (what ~ /^gets/) holds[owner] = 1
    if (what ~ /^gives/) holds[owner] = 0
    if (what ~ /^installer starts/) runs[owner] = 1
    if (what ~ /^installer ends/) { runs[owner] = 0; failed[owner] = what ~ /4$/ }
    if (what ~ /^ended/) over[owner] = 1
    if (what ~ /^gives/) what = what why(owner)
    printf "%6.2f s  %s  %s\n", at - start, owner, what
  }
  function why(o) {
    if (runs[o]) return ": late, while its installer goes on"
    return failed[o] ? ": to swap it for another" : ": at the end"
  }
  function mark(o) {
    if (over[o]) return " "
    if (holds[o]) return "#"
    return runs[o] ? "-" : "."
  }
  END {
    print "\n# holds the lease   - installs on without it   . waits      (a column is 0.1 s)\n"
    for (i = 1; i <= lanes; i++) printf "%s  %s\n", order[i], lane[order[i]]
  }
'
