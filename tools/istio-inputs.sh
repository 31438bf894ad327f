#!/usr/bin/env bash
# Prints a digest of the inputs of the tests with Istio: the packages that they import, the test cluster, tools, examples
# and versions. test/istio.sha256 has the digest of the last `make e2e-all` that passed.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t dirs < <(${GO:-go} list -deps -test -f '{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}' ./internal/kube/meshes ./internal/cli/kubecli ./cmd/... | sort -u)
git ls-files -z --cached --others --exclude-standard -- "${dirs[@]}" test/cluster test/injector tools examples go.mod go.sum Makefile |
  sort -zu | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
