#!/usr/bin/env bash
# Uses a release as its users do: check.sh DIR. It installs and removes a package, so
# it is for machines that are thrown away, as root: Debian with qemu-user, buildah, rpm.
set -o errexit -o nounset -o pipefail

dist=$(cd "${1:?check.sh DIR}" && pwd)
cd "$(dirname "$0")/../.."
tree=$PWD
work=$(mktemp -d)
server=
finish() {
  if [[ -n $server ]]; then kill "$server" || true; fi
  rm -rf "$work"
}
trap finish EXIT

say() { printf 'check: %s\n' "$*"; }
only() { # the one file that a pattern names
  local files
  mapfile -t files < <(find "$dist" -maxdepth 1 -name "$1")
  [[ ${#files[@]} == 1 ]] || { say "$1 names ${#files[@]} files" >&2; exit 1; }
  printf '%s\n' "${files[0]}"
}

say "the checksums"
(cd "$dist" && sha256sum --quiet --check SHA256SUMS)

say "another directory and an empty cache give the same bytes"
git clone --quiet "$tree" "$work/elsewhere"
(cd "$work/elsewhere" && GOCACHE="$work/cache" go run ./scripts/dist -o "$work/again" -targets linux/amd64)
for file in "$work"/again/leasectl_*; do
  cmp "$file" "$dist/${file##*/}"
done

say "the package of Debian"
dpkg --install "$(only '*_linux_amd64.deb')"
leasectl version
leasectl exec --proxy local --pool install=1 --type install -- true
test -s /usr/share/man/man1/leasectl-exec.1
bash -c 'source /usr/share/bash-completion/completions/leasectl'
dpkg --remove leasectl
[[ ! -e /usr/bin/leasectl ]]

say "the package of Red Hat"
rpm --query --package --list "$(only '*_linux_amd64.rpm')" | grep -x /usr/bin/leasectl

# A native server and a client of another machine, and the other way round: the wire and
# the handles are the same on all. (A store is not: bbolt writes in the byte order of its
# machine.)
tar -xzf "$(only '*_linux_amd64.tar.gz')" -C "$work"
native=$(echo "$work"/leasectl_*_linux_amd64/leasectl)
serve() { # serve COMMAND…: in the background, on a socket, with a new store
  rm -rf "$work/socket" "$work/data"
  "$@" serve --socket "$work/socket" --pool install=1 --data "$work/data" 2>"$work/serve.log" &
  server=$!
  for ((i = 0; i < 600; i++)); do
    if [[ -S $work/socket ]]; then return; fi
    sleep 0.1
  done
  cat "$work/serve.log"
  exit 1
}
stop() { kill "$server"; wait "$server"; server=; }
export LEASE_PROXY_SERVER_URL=unix://$work/socket LEASECTL_STATE_DIR=$work/state
declare -A emulator=([arm64]=qemu-aarch64 [ppc64le]=qemu-ppc64le [s390x]=qemu-s390x)
for arch in "${!emulator[@]}"; do
  say "linux/$arch, under ${emulator[$arch]}"
  tar -xzf "$(only "*_linux_$arch.tar.gz")" -C "$work"
  foreign=("${emulator[$arch]}" "$work"/leasectl_*_linux_"$arch"/leasectl)
  serve "$native"
  handle=$("${foreign[@]}" acquire --type install --wait-timeout 5m)
  [[ $("$native" release --handle "$handle") == install-0 ]]
  stop
  serve "${foreign[@]}"
  handle=$("$native" acquire --type install --wait-timeout 5m)
  [[ $("${foreign[@]}" release --handle "$handle") == install-0 ]]
  stop
done

say "the image puts its program into a volume"
tag=localhost/leasectl:check
scripts/dist/image.sh "$native" "$tag"
container=$(buildah --storage-driver vfs from "$tag")
mkdir -m 777 "$work/tools"
buildah --storage-driver vfs run --isolation chroot --volume "$work/tools:/tools" "$container" -- /leasectl install-to /tools
"$work/tools/leasectl" version
buildah --storage-driver vfs rm "$container" >/dev/null
buildah --storage-driver vfs rmi "$tag" >/dev/null
say "image of $(stat -c %s "$native") bytes, packed $(stat -c %s "$(only '*_linux_amd64.tar.gz')")"
