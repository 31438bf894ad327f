#!/usr/bin/env bash
# Builds the documentation as a site into bin/site/VERSION, with a gallery of reports, and lists the
# version in versions.json beside it. Any other content of OUT, bin/site if unset, stays, so that a site
# of many versions grows. Links and anchors that lead nowhere fail it.
#
#   VERSION=v0.1.0 OUT=DIR tools/site/build.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=${VERSION:-dev}
out=${OUT:-bin/site}
case $version in *[!A-Za-z0-9.+-]* | .* | '') echo "site: VERSION=$version is no name of a directory" >&2; exit 2 ;; esac
venv=${XDG_CACHE_HOME:-$HOME/.cache}/tare/site
trimmed() { sed 's/^ *//; s/ *$//' <<<"$1"; } # xargs would remove quotes
note() { printf 'site: %s\n' "$*" >&2; }

if ! cmp -s tools/site/requirements.txt "$venv/requirements.txt"; then
  note "installing mkdocs-material"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r tools/site/requirements.txt
  cp tools/site/requirements.txt "$venv/"
fi

# The pages keep their paths, so that links between them, and to examples, hold.
src=bin/site-src
rm -rf "$src" bin/site-current
mkdir -p "$src/gallery" "$out"
git ls-files -z -- ':(glob)*.md' docs examples LICENSE action.yml templates | xargs -0 cp --parents -t "$src"
# The search finds guides before notes and decisions.
for page in "$src"/docs/lab/*.md "$src"/docs/adr/*.md "$src/CHANGELOG.md"; do
  sed -i '1i ---\nsearch:\n  boost: 0.2\n---\n' "$page"
done
cp tools/site/site.css tools/site/site.js "$src/"

{
  printf '# Gallery\n\nReports of real runs. Each page is one file, with its figures, tables and provenance.\n\n<div class="grid cards" markdown>\n'
  sed 's/#.*//; /^[[:space:]]*$/d' tools/site/gallery.txt | while IFS='|' read -r name title command archive; do
    name=$(xargs <<<"$name") archive=$(xargs <<<"$archive") title=$(trimmed "$title")
    [ -e "$archive" ] || { note "$name: $archive is missing, and left out: make gallery makes it, make pictures that of the quickstart"; continue; }
    run=$(mktemp -d) file=$name.tar.gz
    tar -xf "$archive" -C "$run" --no-same-owner
    bin/tare report "$run" --format html -o "$src/gallery/$name.html" >&2
    cp "$archive" "$src/gallery/$file"
    made=$(python3 -c 'import json, sys; e = json.load(open(sys.argv[1])); print("`" + e["tare"] + "`,", e["time"][:10])' "$run/environment.json")
    sentence=$(COLUMNS=1000 bin/tare report "$run" 2>/dev/null | head -1 | sed 's/[<>*_`]/\\&/g')
    rm -rf "$run"
    figure=docs/pictures/$name.png
    printf '\n-   **[%s](gallery/%s.html)**\n\n' "$title" "$name"
    [ -e "$figure" ] && printf '    [![%s](%s)](gallery/%s.html)\n\n' "$title" "$figure" "$name"
    printf '    %s\n\n    `%s`\n\n    %s, [results](gallery/%s)\n' "$sentence" "$(trimmed "$command")" "$made" "$file"
  done
  printf '\n</div>\n'
  printf '\nThe debate has the data of the [Great Sidecar Debate](https://github.com/BuoyantIO/great-sidecar-debate): download them to repeat its command. `originals.tar` in its archive has the small ones of these files.\n'
  printf '\nUnpack an archive: `tare report`, `tare plot` and `tare serve` read it.\n'
} >"$src/gallery.md"

"$venv/bin/mkdocs" build --strict --quiet --clean -f tools/site/mkdocs.yml
rm -rf "${out:?}/$version"
mv bin/site-current "$out/$version"
python3 tools/site/versions.py "$out"
note "built $out/$version"
