#!/usr/bin/env bash
# Uses a release as its users do: check.sh DIR [TARGETS]. It installs and removes a package, so
# run it as root on a machine that can be thrown away; .ci/run lists what it needs beside Go.
# TARGETS are those of a release that lacks some: linux/amd64,… It is not made a second time.
set -o errexit -o nounset -o pipefail

dist=$(cd "${1:?check.sh DIR [TARGETS]}" && pwd)
targets=${2:-linux/amd64,linux/arm64,linux/ppc64le,linux/s390x,darwin/amd64,darwin/arm64}
all=${2:+no}
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
chmod 755 "$work" # other users run programs in it
server=
finish() {
  if [[ -n $server ]]; then stop; fi
  rm -rf "$work"
}
trap finish EXIT

say() { printf 'check: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }
only() { # the one file that a pattern names
  local files
  mapfile -t files < <(find "$dist" -maxdepth 1 -name "$1")
  ((${#files[@]} == 1)) || fail "$1 names ${#files[@]} files"
  printf '%s\n' "${files[0]}"
}
program() { echo "$work"/leasectl_*_"$1"/leasectl; } # program SYSTEM_ARCH: unpacked

# The second build differs from the first as much as it can on the same machine, and
# compiles one target without a cache. The other targets differ from it only in the
# compiler's target.
again() {
  say "another directory, umask, time zone and language, and an empty cache, give the same bytes"
  mkdir -p "$work/else where"
  tar -c --exclude ./bin --exclude ./dist . | (umask 077 && tar -xC "$work/else where" --no-same-permissions --no-same-owner)
  (
    umask 077
    cd "$work/else where"
    TZ=Asia/Kathmandu LC_ALL=tr_TR.UTF-8 go run ./scripts/dist -o "$work/again" -afresh linux/amd64 >/dev/null
  )
  diff --recursive "$work/again" "$dist"
  rm -rf "$work/else where" "$work/again"
}

# The program in an archive is static, and has the modules that the notices and the SBOM
# name.
contents() { # contents SYSTEM_ARCH
  local archive dir modules
  archive=$(only "*_$1.tar.gz")
  tar -xzf "$archive" -C "$work"
  dir=$(dirname "$(program "$1")")
  go version -m "$dir/leasectl" >"$work/info"
  grep -q $'build\tCGO_ENABLED=0' "$work/info" || fail "$1 is not static"
  modules=$(awk '$1 == "dep" { print $2 " " $3 }' "$work/info")
  [[ -n $modules ]] || fail "$1 names no modules"
  diff <(echo "$modules") <(grep -A1 -x '=\{80\}' "$dir/NOTICES" | grep -x '[^ ]* v[0-9][^ ]*') || fail "$1: NOTICES"
  diff <(echo "$modules") <(sed -n 's/^ *"purl": "pkg:golang\/\(.*\)@\(v.*\)"$/\1 \2/p' "${archive%.tar.gz}.cdx.json") || fail "$1: SBOM"
  say "$1: $(stat -c %s "$dir/leasectl") bytes, packed $(stat -c %s "$archive"), $(wc -l <<<"$modules") modules"
}

# Every command has a man page without a warning of groff, and each shell can read its
# completions.
manual() {
  local dir command='' warnings
  dir=$(dirname "$(program linux_amd64)")
  say "man pages and completions"
  for command in $("$dir/leasectl" __complete '' 2>/dev/null | sed -n 's/^\([a-z-]*\)\t.*/\1/p'); do
    case $command in completion | help) continue ;; esac
    [[ -s $dir/man/leasectl-$command.1 ]] || fail "no man page of $command"
  done
  [[ -n $command ]] || fail "there are no commands"
  warnings=$(groff -K utf8 -T utf8 -man -ww -z "$dir"/man/*.1 2>&1)
  [[ -z $warnings ]] || fail "groff: $warnings"
  bash -c 'source "$1" && complete -p leasectl' bash "$dir/completions/leasectl.bash"
  zsh -n "$dir/completions/_leasectl"
  fish --no-execute "$dir/completions/leasectl.fish"
}

debian() {
  local package
  say "the package of Debian"
  for package in "$dist"/*.deb; do
    dpkg-deb --field "$package" Package Version Architecture | paste -sd ' '
    rm -rf "$work/deb"
    dpkg-deb --extract "$package" "$work/deb"
    package=${package##*_linux_}
    cmp "$work/deb/usr/bin/leasectl" "$(program "linux_${package%.deb}")"
  done
  dpkg --install "$(only '*_linux_amd64.deb')"
  leasectl version
  serve "$work/socket" leasectl serve --socket "$work/socket" --pool install=1
  leasectl exec --proxy "unix://$work/socket" --type install -- printenv LEASED_RESOURCE
  stop
  bash -c 'source /usr/share/bash-completion/completions/leasectl'
  unit
  dpkg --remove leasectl
  [[ ! -e /usr/bin/leasectl && ! -e $unit ]] || fail "the package leaves its program or its unit"
  [[ -e /etc/leasectl/pools.yaml ]] || fail "removing the package removes its settings"
  touch /etc/leasectl/auth.yaml
  dpkg --purge leasectl
  [[ ! -e /etc/leasectl/pools.yaml && ! -e /var/lib/leasectl && ! -L $wanted ]] || fail "a purge leaves settings, leases or an enabled unit"
  [[ -e /etc/leasectl/auth.yaml ]] || fail "a purge removes what the administrator wrote"
  rm -r /etc/leasectl
}

# The files for a server in the package of Debian: a unit that systemd accepts and that is
# not enabled, its user, and pools that can be served.
unit=/usr/lib/systemd/system/leasectl.service
wanted=/etc/systemd/system/multi-user.target.wants/leasectl.service
unit() {
  local complaints
  say "the unit"
  [[ ! -e $wanted ]] || fail "the package enables its unit"
  if pgrep --exact --euid leasectl leasectl; then fail "the package starts the server"; fi
  complaints=$(systemd-analyze verify --man=no "$unit" 2>&1)
  [[ -z $complaints ]] || fail "systemd-analyze: $complaints"
  serve "$work/socket" leasectl serve --socket "$work/socket" --config /etc/leasectl/pools.yaml
  leasectl exec --proxy "unix://$work/socket" --type install -- printenv LEASED_RESOURCE
  stop
  # As after systemctl enable --now.
  install -d -o leasectl -m 700 /var/lib/leasectl
  install -d "${wanted%/*}"
  ln -s "$unit" "$wanted"
}

redhat() { # into a directory of its own: the package database of this machine is Debian's
  local package root=$work/redhat
  say "the package of Red Hat"
  for package in "$dist"/*.rpm; do
    rpm --query --package --queryformat '%{NAME} %{VERSION}-%{RELEASE} %{ARCH}, built on %{BUILDHOST}\n' "$package"
    [[ $(rpm --query --package --queryformat '%{BUILDHOST}' "$package") == localhost ]] || fail "$package names the machine"
    mkdir "$root"
    rpm --install --root "$root" --nodeps --ignorearch --force-debian "$package"
    rpm --verify --root "$root" leasectl
    cmp "$root$unit" examples/systemd/leasectl.service
    rpm --query --root "$root" --configfiles leasectl | grep -qx /etc/leasectl/pools.yaml || fail "$package: pools.yaml is no setting"
    package=${package##*_linux_}
    cmp "$root/usr/bin/leasectl" "$(program "linux_${package%.rpm}")"
    rm -rf "$root"
  done
}

serve() { # serve SOCKET COMMAND…: in the background, with a new store
  local socket=$1
  shift
  rm -rf "$socket"
  set -o monitor # a process group of its own
  "$@" 2>"$work/serve.log" &
  server=$!
  set +o monitor
  for ((i = 0; i < 1200; i++)); do
    if [[ -S $socket ]]; then return; fi
    if ! kill -0 "$server" 2>/dev/null; then break; fi
    sleep 0.1
  done
  cat "$work/serve.log" >&2
  fail "no server: $*"
}
stop() { # and waits for its whole process group
  kill -- "-$server" || true
  wait "$server" || true
  while kill -0 -- "-$server" 2>/dev/null; do sleep 0.1; done
  server=
}

# A native server and a client of another architecture, and the other way round: the wire
# and the handles are the same on all. (A store is not: bbolt writes in the byte order of
# its machine.)
foreign() { # foreign ARCH EMULATOR
  local native handle
  [[ ,$targets, == *,linux/$1,* ]] || return 0
  native=$(program linux_amd64)
  say "linux/$1, under $2"
  set -- "$2" "$(program "linux_$1")"
  export LEASE_PROXY_SERVER_URL=unix://$work/socket LEASECTL_STATE_DIR=$work/state
  "$@" version
  rm -rf "$work/data" && serve "$work/socket" "$native" serve --socket "$work/socket" --pool install=1 --data "$work/data"
  handle=$("$@" acquire --type install --wait-timeout 5m)
  [[ $("$native" release --handle "$handle") == install-0 ]]
  stop
  rm -rf "$work/data" && serve "$work/socket" "$@" serve --socket "$work/socket" --pool install=1 --data "$work/data"
  handle=$("$native" acquire --type install --wait-timeout 5m)
  [[ $("$@" release --handle "$handle") == install-0 ]]
  stop
  unset LEASE_PROXY_SERVER_URL LEASECTL_STATE_DIR
}

# The image from scratch, as an init container and as a server. Where no container can run,
# its files are unpacked and run in a chroot.
image() {
  local native tag=localhost/leasectl:check id container root blob url
  native=$(program linux_amd64)
  say "the image"
  # Its own storage, so that /var/lib/containers of the machine does not change.
  printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/images" "$work/run" >"$work/storage.conf"
  export CONTAINERS_STORAGE_CONF=$work/storage.conf
  scripts/dist/image.sh "$native" "$tag"
  id=$(buildah images --quiet --no-trunc "$tag")
  scripts/dist/image.sh "$native" "$tag" >/dev/null 2>&1
  [[ $(buildah images --quiet --no-trunc "$tag") == "$id" ]] || fail "another image of the same program is another"
  buildah push --quiet "$tag" "oci:$work/oci"
  root=$work/root
  mkdir "$root"
  for blob in "$work"/oci/blobs/sha256/*; do
    if gzip --test "$blob" 2>/dev/null; then tar -xzf "$blob" -C "$root"; fi
  done
  [[ $(cd "$root" && find . -type f) == ./leasectl ]] || fail "the image has more than the program, or less"
  cmp "$root/leasectl" "$native"
  say "the image is $(stat -c %s "$root/leasectl") bytes, $(cat "$work"/oci/blobs/sha256/* | wc -c) to pull"

  scripts/dist/images.sh "$dist" localhost/leasectl:all >/dev/null
  STORAGE_DRIVER=vfs buildah manifest push --all --quiet localhost/leasectl:all "oci:$work/all"
  for target in ${targets//,/ }; do
    [[ $target != linux/* ]] || grep -qsr "\"architecture\":\"${target#linux/}\"" "$work/all/blobs" || fail "there is no image for $target"
  done

  container=$(buildah from "$tag")
  if buildah run --isolation chroot "$container" -- /leasectl version; then
    volume=$work/volume
    inside() { buildah run --isolation chroot --user "$1" --volume "$volume:/volume" "$container" -- "${@:2}"; }
  else
    say "NO CONTAINER CAN RUN HERE: the files of the image run in a chroot"
    volume=$root/volume
    mkdir -p "$root/proc/self" && ln -s /leasectl "$root/proc/self/exe" # all of /proc that it reads
    inside() { chroot --userspec "$1" "$root" "${@:2}"; }
  fi
  # A volume as a pod has it: owned by root, writable for all. The users: the user of the
  # image, and one that a cluster chose.
  install -d -m 2777 "$volume"
  inside 65532:65532 /leasectl install-to /volume/tools
  inside 1000730000:0 /leasectl install-to /volume/other/tools
  serve "$volume/socket" inside 1000730000:0 /leasectl serve --socket /volume/socket --pool install=1 --data /volume/data
  # The step's container has other programs, and finds this one by its PATH.
  url=unix://$volume/socket
  for tools in "$volume/tools" "$volume/other/tools"; do
    setpriv --reuid 1000730000 --regid 0 --clear-groups env --ignore-environment \
      PATH="$tools:/usr/bin:/bin" LEASE_PROXY_SERVER_URL="$url" LEASECTL_STATE_DIR="$volume/state" \
      leasectl exec --type install -- printenv LEASED_RESOURCE
  done
  stop
  unset CONTAINERS_STORAGE_CONF
}

say "the checksums"
(cd "$dist" && sha256sum --check --ignore-missing --quiet SHA256SUMS)
for target in ${targets//,/ }; do
  contents "${target/\//_}"
done
manual
debian
redhat
foreign arm64 qemu-aarch64
foreign ppc64le qemu-ppc64le
foreign s390x qemu-s390x
image
[[ -n $all ]] || again
say "all of it"
