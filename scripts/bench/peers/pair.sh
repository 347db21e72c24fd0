#!/usr/bin/env bash
# Takes a lease and gives it back with tools that every CI image has: curl, jq,
# and flock(1) around each critical section. It does what leasectl acquire and
# release do for a script, without retries, renewals and request ids.
#
#   usage: pair.sh URL TYPE HANDLE
set -o errexit -o nounset -o pipefail

proxy=$1 type=$2 handle=$3

acquire() {
  local reply
  reply=$(curl -fsS -X POST "$proxy/lease/acquire?type=$type")
  (
    flock 9
    jq -r '.names[]' <<<"$reply" >"$handle"
  ) 9>"$handle.lock"
}

release() {
  (
    flock 9
    jq -Rn '{names: [inputs]}' <"$handle" |
      curl -fsS -X POST -H 'Content-Type: application/json' --data-binary @- "$proxy/lease/release"
    rm "$handle"
  ) 9>"$handle.lock"
}

acquire
release
