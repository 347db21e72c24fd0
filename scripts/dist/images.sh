#!/usr/bin/env bash
# Makes one image for all machines, from the archives of a release: images.sh DIST TAG. TAG is a
# list of images, one for each linux; buildah manifest push --all takes it to a registry. Like
# image.sh, it needs root.
set -o errexit -o nounset -o pipefail

dist=${1:?images.sh DIST TAG} tag=${2:?images.sh DIST TAG}
here=$(cd "$(dirname "$0")" && pwd)
export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
buildah manifest rm "$tag" >/dev/null 2>&1 || true # of an earlier run
buildah manifest create "$tag" >/dev/null
for archive in "$dist"/leasectl_*_linux_*.tar.gz; do
  machine=${archive##*_}
  machine=${machine%.tar.gz}
  tar -xzf "$archive" -C "$work"
  "$here/image.sh" "$work/$(basename "$archive" .tar.gz)/leasectl" "$tag-$machine" "$machine"
  buildah manifest add "$tag" "containers-storage:$tag-$machine" >/dev/null
done
