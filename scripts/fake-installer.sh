#!/usr/bin/env bash
# Stands in for `openshift-install create cluster` in the demo: fails twice with
# exit code 4, as the installer does on an infrastructure failure, then
# succeeds. $1 is a file that counts its runs; the others are how many seconds
# the first run takes, the second, and the third.
set -o errexit -o nounset -o pipefail

runs=0
[ ! -s "$1" ] || runs=$(cat "$1")
runs=$((runs + 1))
printf '%s\n' "$runs" >"$1"
shift "$runs"
sleep "$1"
[ "$runs" -gt 2 ] || exit 4
