#!/usr/bin/env bash
# Stands in for `openshift-install create cluster` in the demo: fails twice with
# exit code 4, as the installer does on an infrastructure failure, then
# succeeds. $1 is a file that counts its runs; the other arguments are the
# seconds that the first, the second and the third run take.
set -o errexit -o nounset -o pipefail

runs=0
[ ! -s "$1" ] || runs=$(cat "$1")
runs=$((runs + 1))
printf '%s\n' "$runs" >"$1"
shift "$runs"
sleep "$1"
[ "$runs" -gt 2 ] || exit 4
