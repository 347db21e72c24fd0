#!/bin/sh
# Makes the user of the unit, and lets systemd see the unit. Nothing is enabled or started:
# the server needs tokens and a certificate first.
set -e
[ "$1" = configure ] || exit 0
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers leasectl.conf
fi
if [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload || true
fi
