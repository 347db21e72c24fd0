#!/usr/bin/env bash
# An installation under a lease, the shortest way: leasectl does the attempts,
# the late release, the signals and the clean-up.
#
#   LEASE_PROXY_SERVER_URL  the lease proxy; unset: the installer simply runs
#   LEASE_TYPE              which pool
#   LEASE_HOLD              how long an installation needs its lease
set -o errexit -o nounset -o pipefail

# Exit code 4 is a failure of the infrastructure: worth another attempt. The
# lease is an optimisation: the installer runs even without a lease.
exec leasectl exec --type "${LEASE_TYPE:-install}" --optional \
  --release-after "${LEASE_HOLD:-20m}" --attempts 5 --retry-on 4 \
  -- openshift-install create cluster
