#!/usr/bin/env bash
# An installation under a lease, with the functions that steps have always had.
# LEASE_PROXY_CLIENT_SH names client.sh.
#
#   LEASE_PROXY_SERVER_URL  the lease proxy; unset: every function does nothing
#   LEASE_TYPE              which pool
#   LEASE_HOLD              how long an installation needs its lease
set -o errexit -o nounset -o pipefail
# shellcheck source=scripts/client.sh
source "$LEASE_PROXY_CLIENT_SH"

type=${LEASE_TYPE:-install} hold=${LEASE_HOLD:-20m}
handle='' late='' installer=''

# The lease is an optimisation: the installer runs even without a lease.
acquire_lease() {
  handle=$(lease__acquire --type="$type" --scope=step) || handle=''
}

release_lease() {
  if [[ -n $late ]]; then
    kill "$late" 2>/dev/null || :
    wait "$late" 2>/dev/null || :
    late=''
  fi
  lease__release --handle="$handle" >&2 || :
}

# shellcheck disable=SC2317 # a trap calls it
on_exit() {
  echo 'collecting logs' >&2
  release_lease
}
trap on_exit EXIT
# A signal ends the installer, then the step, whose EXIT trap runs on_exit.
# shellcheck disable=SC2317 # a trap calls it
stop() {
  [[ -z $installer ]] || kill "$installer" 2>/dev/null || : # it may have got the signal, too
  exit "$1"
}
trap 'stop 143' TERM
trap 'stop 130' INT

for attempt in 1 2 3 4 5; do
  if ((attempt > 1)); then
    release_lease
  fi
  acquire_lease
  if [[ -n $handle ]]; then
    lease__release --delay="$hold" --handle="$handle" >&2 &
    late=$!
  fi
  # In the background, since bash handles a signal only when a command in the
  # foreground has ended.
  openshift-install create cluster &
  installer=$! status=0
  wait "$installer" || status=$?
  installer=''
  if ((status != 4)); then # 4 is a failure of the infrastructure
    break
  fi
done
exit "$status"
