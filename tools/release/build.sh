#!/usr/bin/env bash
# Archives of every target, packages of the Linux ones, and their SHA-256, in OUT. Files have the time of the commit.
set -euo pipefail
cd "$(dirname "$0")/../.."
OUT=${OUT:-bin/release}
TARGETS=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
GO=${GO:-go}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# Packages order versions by numbers: a commit without a tag comes before every release.
package=${VERSION#v}
[[ $package =~ ^[0-9]+\.[0-9] ]] || package=0.0.0~$package
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
for target in $TARGETS; do
  os=${target%/*} arch=${target#*/}
  dir=$programs/$os-$arch
  mkdir "$dir"
  CGO_ENABLED=0 GOOS=$os GOARCH=$arch $GO build -trimpath -ldflags "-s -w -X github.com/tare-mesh/tare/internal/cli/console.buildVersion=$VERSION" \
    -o "$dir/" ./cmd/...
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$dir" -cf - . -C "$PWD" README.md CHANGELOG.md LICENSE examples |
    gzip -9n >"$OUT/tare_${VERSION#v}_${os}_$arch.tar.gz"
  [ "$os" = linux ] || continue
  for packager in deb rpm apk; do
    ARCH=$arch VERSION=$package PROGRAMS=$dir $GO tool -modfile=tools/release/go.mod nfpm package \
      --config tools/release/nfpm.yaml --packager "$packager" --target "$OUT/" >&2
  done
done
shopt -s nullglob
(cd "$OUT" && sha256sum -- *.tar.gz *.deb *.rpm *.apk >SHA256SUMS)
cat "$OUT/SHA256SUMS"
