#!/usr/bin/env bash
# Runs three install steps at once with a pool of one lease, and shows who held
# the lease when: it is released late while the installer still runs, swapped
# between attempts, and given back at the end.
#
#   usage: demo.sh LEASECTL
set -o errexit -o nounset -o pipefail

here=$(cd "$(dirname "$0")" && pwd)
leasectl=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
server=''
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# The steps call leasectl by its name, as they would in CI.
mkdir "$work/bin"
ln -s "$leasectl" "$work/bin/leasectl"
export PATH="$work/bin:$PATH"
export LEASECTL_STATE_DIR="$work/state" LEASE_PROXY_SERVER_URL="unix://$work/proxy.sock"

leasectl serve --socket "$work/proxy.sock" --pool install=1 2>"$work/server.log" &
server=$!
until leasectl status >/dev/null 2>&1; do
  kill -0 "$server" 2>/dev/null || { cat "$work/server.log" >&2; exit 1; }
done

# Milliseconds of the day, as in the server's log, and what happened to whom.
clock() {
  local h m s ms
  read -r h m s ms < <(date '+%H %M %S %3N')
  printf '%d' "$((((10#$h * 60 + 10#$m) * 60 + 10#$s) * 1000 + 10#$ms))"
}
event() { printf '%s %s %s\n' "$(clock)" "$1" "$2" >>"$work/events"; }
export -f clock event
export work

# The installer of a step, which notes when it starts and ends.
cat >"$work/bin/openshift-install" <<EOT
#!/usr/bin/env bash
status=0
event "\$LEASECTL_OWNER" 'installer starts'
"$here/fake-installer.sh" "$work/\$LEASECTL_OWNER.runs" 0.8 0.3 0.4 || status=\$?
event "\$LEASECTL_OWNER" "installer ends with exit code \$status"
exit "\$status"
EOT
chmod +x "$work/bin/openshift-install"

# One step, as CI would run it. Its installer needs the lease for the first
# 0.5 s. The first run is longer than that and fails, so the lease goes back
# late; the second fails sooner, so the lease is swapped for another; the third
# succeeds sooner, so the lease goes back at the end.
run_step() {
  local name=$1 status=0
  event "$name" begins
  LEASECTL_OWNER=$name LEASE_HOLD=500ms \
    "$here/step-example.sh" >"$work/$name.log" 2>&1 || status=$?
  event "$name" "ended with exit code $status"
}

printf 'Three install steps, one lease. Each installer fails twice, with a lease of its own each time.\n\n'
run_step step-1 & one=$!
run_step step-2 & two=$!
run_step step-3 & three=$!
wait "$one" "$two" "$three"

"$here/demo-timeline.sh" "$work/events" "$work/server.log"
printf '\nat the end:\n'
leasectl status
