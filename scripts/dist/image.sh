#!/usr/bin/env bash
# Makes an OCI image of a release's program: image.sh BINARY TAG [MACHINE], where
# MACHINE is what Go calls that of the program, if it is another. buildah push takes it to a registry. vfs storage and chroot isolation need root, but no container engine and none of
# its privileges. Two images of one program are identical.
set -o errexit -o nounset -o pipefail

binary=${1:?image.sh BINARY TAG [MACHINE]} tag=${2:?image.sh BINARY TAG [MACHINE]} machine=${3:-}
here=$(cd "$(dirname "$0")" && pwd)

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
install -m 755 "$binary" "$context/leasectl"
STORAGE_DRIVER=${STORAGE_DRIVER:-vfs} buildah build --isolation chroot --timestamp "${SOURCE_DATE_EPOCH:-0}" ${machine:+--platform "linux/$machine"} --tag "$tag" --file "$here/Containerfile" "$context"
