#!/usr/bin/env bash
# All files of a release in OUT: archives, packages, wheels, packages of npm, images, SBOMs, provenance, manifests of package managers and
# SHA-256, signed if SIGNING_KEY is the file of a minisign key. Files have the time of the commit, so that archives,
# packages, images and SBOMs of a second build have the same bytes. PUBLIC_KEY is the key that must verify the signature.
# IMAGES=REGISTRY/NAMESPACE pushes the images, as the last step. A release v1.2.3 has two tags, since kube/ is a module of
# its own: v1.2.3 and kube/v1.2.3.
set -euo pipefail
export -n SIGNING_KEY SIGNING_PASSWORD # other programs do not inherit them
umask 022
cd "$(dirname "$0")/../.."
OUT=${OUT:-bin/release}
TARGETS=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
GO=${GO:-go}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
. tools/release/version.sh
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
# Nothing of an earlier version is listed in SHA256SUMS.
files=(-maxdepth 1 -type f \( -name 'tare*' -o -name commits.txt -o -name provenance.intoto.json -o -name 'SHA256SUMS*' \))
find "$OUT" "${files[@]}" -delete
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/programs" "$work/files"
cp -r README.md CHANGELOG.md LICENSE examples "$work/files/"
GOWORK=off $GO build -C tools/release -o "$work/tools/" tool .
mkdir "$work/files/completion"
$GO build -o "$work/tools/" ./cmd/tare
for shell in bash zsh fish; do "$work/tools/tare" completion "$shell" >"$work/files/completion/tare.$shell"; done
"$work/tools/tare" schema >"$work/files/experiment.schema.json"
sed '1s/.*/tare 1 "" "tare '"$VERSION"'" "User Commands"\n=====/' docs/reference/cli.md | "$work/tools/go-md2man" -out "$work/files/tare.1"
chmod -R u=rwX,go=rX "$work/files" # whatever the modes of the checkout
find "$work/files" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
for target in $TARGETS; do
  os=${target%/*} arch=${target#*/}
  dir=$work/programs/$os-$arch
  mkdir "$dir"
  for module in . kube; do
    CGO_ENABLED=0 GOOS=$os GOARCH=$arch GOWORK=off $GO build -C "$module" -trimpath -ldflags "-s -w -X github.com/tare-mesh/tare/internal/cli/console.buildVersion=$VERSION" \
      -o "$dir/" ./cmd/...
  done
  tar --sort=name --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$dir" -cf - . -C "$work/files" README.md CHANGELOG.md LICENSE examples completion experiment.schema.json tare.1 |
    gzip -9n >"$OUT/tare_${VERSION#v}_${os}_$arch.tar.gz"
  [ "$os" = linux ] || continue
  for packager in deb rpm apk; do
    ARCH=$arch VERSION=$(package_version "$packager" "$VERSION") PROGRAMS=$dir FILES=$work/files "$work/tools/nfpm" package --config tools/release/nfpm.yaml --packager "$packager" --target "$OUT/" >&2
  done
done
for file in "$OUT"/*~*; do # GitHub renames files of a release with a tilde
  if [ -e "$file" ]; then mv "$file" "${file//\~/-}"; fi
done
release() { "$work/tools/release" -out "$OUT" -programs "$work/programs" -version "$VERSION" -commit "$(git rev-parse HEAD)" -time "$SOURCE_DATE_EPOCH" -wheel "$(package_version wheel "$VERSION")" -npm "$(package_version npm "$VERSION")" "$@"; }
release
# The changelog from commits: those since the release before.
before=$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null || true)
git log --format='%H %cs %s' ${before:+"$before.."} >"$OUT/commits.txt"
(cd "$OUT" && find . "${files[@]}" -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum -- >"$work/sums" && mv "$work/sums" SHA256SUMS)
sign() { "$work/tools/minisign" -S -s "$SIGNING_KEY" -t "tare $VERSION" -m "$OUT/SHA256SUMS" >&2; }
if [ -n "${SIGNING_PASSWORD:-}" ]; then
  sign <<<"$SIGNING_PASSWORD"
elif [ -n "${SIGNING_KEY:-}" ]; then
  sign
fi
if [ -n "${PUBLIC_KEY:-}" ]; then "$work/tools/minisign" -V -q -P "$PUBLIC_KEY" -m "$OUT/SHA256SUMS" >&2; fi
if [ -n "${IMAGES:-}" ]; then release -push "$IMAGES"; fi
cat "$OUT/SHA256SUMS"
