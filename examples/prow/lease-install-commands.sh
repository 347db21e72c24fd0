#!/usr/bin/env bash
# Installs a cluster under a lease of the cloud account. The owner of the lease is the job,
# by Prow's variables. Without a proxy, or if no lease is to be had, the installer runs all
# the same. A line of its log that says that the account throttles is reported, for a pool
# that adapts.
set -o errexit -o nounset -o pipefail

# leasectl takes the place of the shell, so that it gets the signal when Prow stops the step.
exec leasectl exec --type "$LEASE_TYPE" --optional --release-after "$LEASE_HOLD" \
  --in-log "$ARTIFACT_DIR/install/.openshift_install.log" \
  --throttled-match 'Throttling|RequestLimitExceeded|TooManyRequests' \
  -- openshift-install create cluster --dir "$ARTIFACT_DIR/install"
