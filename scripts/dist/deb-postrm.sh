#!/bin/sh
# A purge also removes the leases, and the link that enables the unit. Tokens and
# certificates in /etc/leasectl belong to the administrator, and stay.
set -e
if [ "$1" = purge ]; then
  rm -rf /var/lib/leasectl
  rm -f /etc/systemd/system/multi-user.target.wants/leasectl.service
fi
if [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload || true
fi
