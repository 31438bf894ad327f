#!/usr/bin/env bash
# Prints a digest of the inputs of the tests with Istio: the packages that they import, the test cluster, examples, versions
# and the commands of make. test/istio.sha256 has the digest of the last run of them that passed. Not among the inputs are tests of the
# imported packages, and what only reads results: figures, predictions, reports, pages, importers, checks of records.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK="$PWD/go.work"
tested=(kube/internal/meshes kube/internal/cli/kubecli)
dirs=$(${GO:-go} list -deps -test -f '{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}' "${tested[@]/#/./}" ./cmd/... ./kube/cmd/...)
mapfile -t dirs < <(sort -u <<<"$dirs")
{
  {
    git ls-files -z --cached --others --exclude-standard -- "${dirs[@]}" | grep -Ezv '_test[.]go$|^internal/(answer|compare|figures|importer|predict|result/verify|show|stats|study)/'
    git ls-files -z --cached --others --exclude-standard -- "${tested[@]}" test/cluster kube/test/injector tools/go.mod examples go.mod go.sum kube/go.mod kube/go.sum
  } | sort -zu | xargs -0 sha256sum
  env -u MAKEFLAGS -u MFLAGS -u FAILED -u AFTER -u TIMEOUT -u TARE_TEST_ALL make --no-print-directory -n -o program-istio GO=go e2e-istio e2e-meshes on-istio on-meshes | sed "s|$(pwd -P)||g"
} | sha256sum | cut -d' ' -f1
