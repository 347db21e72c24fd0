#!/usr/bin/env bash
# An installation under a lease, with single commands: for a step that does more
# between them. The proxy does the late release, even if this step has died
# before.
#
#   LEASE_PROXY_SERVER_URL  the lease proxy; unset: every leasectl does nothing
#   LEASE_TYPE              which pool
#   LEASE_HOLD              how long an installation needs its lease
set -o errexit -o nounset -o pipefail
eval "$(leasectl shell bash)"

type=${LEASE_TYPE:-install} hold=${LEASE_HOLD:-20m} installer=''

# The step's own clean-up. trap_add below adds the release to it, and does not
# replace it.
trap 'echo "collecting logs" >&2' EXIT

# The lease is an optimisation: the installer runs even without a lease.
handle=$(leasectl acquire --type "$type" --optional) || handle=''

# shellcheck disable=SC2317 # a trap calls it
release_lease() {
  [[ -z $handle ]] || leasectl release --handle "$handle" >/dev/null
}
trap_add release_lease EXIT

# A signal ends the installer, then the step, whose EXIT trap runs the two
# commands above.
# shellcheck disable=SC2317 # a trap calls it
stop() {
  [[ -z $installer ]] || kill "$installer" 2>/dev/null || : # it may have got the signal, too
  exit "$1"
}
trap_add 'stop 143' TERM
trap_add 'stop 130' INT

for attempt in 1 2 3 4 5; do
  if ((attempt > 1)) && [[ -n $handle ]]; then
    # Cancels the late release, gives the old lease back and queues for another.
    leasectl reacquire --handle "$handle" --type "$type" --optional >/dev/null || :
  fi
  if [[ -n $handle ]]; then
    leasectl release --handle "$handle" --delay "$hold" --detach || :
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
