#!/usr/bin/env bash
# Makes an OCI image of a release: image.sh BINARY TAG. Buildah with vfs storage and
# chroot isolation needs root, but no privileges of a container engine.
set -o errexit -o nounset -o pipefail

binary=${1:?image.sh BINARY TAG} tag=${2:?image.sh BINARY TAG}
here=$(cd "$(dirname "$0")" && pwd)

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
install -m 755 "$binary" "$context/leasectl"
buildah --storage-driver vfs build --isolation chroot --timestamp "${SOURCE_DATE_EPOCH:-0}" --tag "$tag" --file "$here/Containerfile" "$context"
