#!/usr/bin/env bash
# A CI step that installs a cluster, with a lease over the part of the
# installation that the shared account cannot bear too often.
#
#   LEASE_PROXY_SERVER_URL  the lease proxy; unset: no lease is taken
#   LEASE_TYPE              which pool
#   LEASE_HOLD              how long an installation needs its lease (20m)
#   INSTALL                 the installer's command line
#
# The lease is an optimisation: the step goes on without one if none is to be
# had, and then every command below has nothing to do.
set -o errexit -o nounset -o pipefail

: "${LEASE_TYPE:=install}" "${LEASE_HOLD:=20m}" "${INSTALL:=openshift-install create cluster}"
readonly max_attempts=5 infrastructure_failure=4

# What the step did before it knew of leases, and goes on to do: it is the
# first trap, and the release is added behind it, not put in its place.
# shellcheck disable=SC2317 # a trap calls it
collect_logs() { printf 'step: collecting logs\n' >&2; }
trap collect_logs EXIT

# shellcheck source=scripts/trap.sh
source "$(dirname "${BASH_SOURCE[0]}")/trap.sh"

handle=$(leasectl acquire --type "$LEASE_TYPE" --optional) || handle=''
# shellcheck disable=SC2317 # a trap calls it
release_lease() { [ -z "$handle" ] || leasectl release --handle "$handle" >/dev/null; }
trap_add release_lease EXIT
# A signal ends the step, and the end of the step runs the traps above.
trap_add 'exit 143' TERM
trap_add 'exit 130' INT

for ((attempt = 1; attempt <= max_attempts; attempt++)); do
  if ((attempt > 1)) && [ -n "$handle" ]; then
    # Gives back what is left of the last attempt's lease, cancels its late
    # release, and queues again.
    leasectl reacquire --handle "$handle" --type "$LEASE_TYPE" --optional >/dev/null || true
  fi
  # The proxy releases when the busy part is over, even if this step is dead
  # by then.
  [ -z "$handle" ] || leasectl release --handle "$handle" --delay "$LEASE_HOLD" --detach || true

  status=0
  # shellcheck disable=SC2086 # the command line is meant to be split
  $INSTALL || status=$?
  printf 'step: attempt %d ended with %d\n' "$attempt" "$status" >&2
  ((status == infrastructure_failure)) || break
done
exit "$status"
