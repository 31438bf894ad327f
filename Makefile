# make lists its targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

GO        ?= go
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X github.com/tare-mesh/tare/internal/cli.buildVersion=$(VERSION)
TOOL      := $(GO) tool -modfile=tools/go.mod
# Many tests measure: a machine that others use can spoil one. What fails is run again by itself,
# at most twice, and named at the end; what fails three times is broken.
tests      = $(TOOL) gotestsum --format pkgname --rerun-fails=2 --packages='$(1)' --
# Rooms whose tests have a cluster to themselves, one room at a time: some stop its API server. Of
# internal/cli/kubecli those do that are named TestKubernetes….
ROOMS_ON_CLUSTER := ./internal/kube/cluster ./internal/kube/meshes ./internal/run/meter/kubelet ./internal/run/platform/kube
FUZZTIME  ?= 20s
BENCHTIME ?= 1s

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build tare and tare-agent into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/tare ./cmd/tare-agent

.PHONY: build-kube
build-kube: ## the same, and tare-kube, which measures on Kubernetes clusters
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/tare ./cmd/tare-agent ./cmd/tare-kube

.PHONY: quickstart
quickstart: build ## weigh a real Envoy sidecar on this machine, in about three minutes
	@bin/tare run examples/quickstart.yaml || { code=$$?; [ $$code -eq 3 ] || exit $$code; \
	  echo "some trials could not be used (exit code 3): the answer above rests on the others"; }

.PHONY: test
test: ## unit tests, in about three minutes
	$(GO) vet ./...
	$(call tests,./...) -short

.PHONY: race
race: ## the same with the race detector
	$(call tests,./...) -race -short -p 2 -timeout 30m

.PHONY: generators
generators: ## install the load generators that can be had (oha, wrk, hey, h2load, vegeta, fortio, k6, ghz) into the user's cache
	GO='$(GO)' tools/generators/install.sh

.PHONY: consul
consul: ## build Consul from its Go module into the user's cache, once (about 12 minutes of a processor)
	GO='$(GO)' tools/consul/install.sh

.PHONY: e2e
e2e: build-kube generators consul race bin/tare-cluster ## the race detector, then the tests with real Envoys, Consul, real experiments and a real Kubernetes
	bin/tare-cluster build --with istio
	tools/prometheus/install.sh
	$(GO) test -C test/cluster -count=1 -timeout 30m -p 1 ./...
	$(MAKE) --no-print-directory -j 3 e2e-here e2e-cluster e2e-cadvisor

.PHONY: e2e-here
e2e-here: # beside the next, which mostly waits
	$(call tests,$(filter-out ./internal/cli ./internal/cli/kubecli $(ROOMS_ON_CLUSTER),$(patsubst github.com/tare-mesh/tare%,.%,$(shell $(GO) list ./...)))) -count=1 -timeout 60m -p 1
	$(call tests,./internal/cli ./internal/cli/kubecli) -count=1 -timeout 60m -p 1 -skip '^TestKubernetes'

.PHONY: e2e-cluster
e2e-cluster: bin/tare-cluster
	bin/tare-cluster run --name e2e --with istio -- env -u MAKEFLAGS make --no-print-directory on-cluster

.PHONY: e2e-cadvisor
e2e-cadvisor: bin/tare-cluster # whose kubelet refreshes its counters every 10 to 20 s, as most do: it waits, beside the others
	bin/tare-cluster run --name e2ecad --cadvisor -- $(call tests,./internal/run/meter/kubelet) -count=1 -run AgainstControlGroup

.PHONY: on-cluster
on-cluster: # where TARE_TEST_KUBECONFIG names one
	$(call tests,$(ROOMS_ON_CLUSTER)) -count=1 -timeout 60m -p 1
	$(call tests,./internal/cli/kubecli) -count=1 -timeout 60m -run '^TestKubernetes'

.PHONY: bin/tare-cluster
bin/tare-cluster:
	CGO_ENABLED=0 $(GO) build -C test/cluster -trimpath -o ../../bin/ ./cmd/tare-cluster

.PHONY: cluster
cluster: bin/tare-cluster ## bring up a real Kubernetes on this machine and leave it up (root; docs/how-to/testing.md)
	@bin/tare-cluster up

.PHONY: cluster-down
cluster-down: bin/tare-cluster ## take it down whole
	@bin/tare-cluster down

.PHONY: lint
lint: ## gofmt, the word list, go vet, staticcheck, govulncheck
	@unformatted=$$(gofmt -l cmd internal test *.go); [ -z "$$unformatted" ] || { echo "not formatted:"; echo "$$unformatted"; exit 1; }
	$(GO) run ./test/words
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	$(GO) vet -C test/cluster ./...
	$(TOOL) staticcheck ./...
	cd test/cluster && $(GO) tool -modfile=../../tools/go.mod staticcheck ./...
	@$(TOOL) govulncheck ./... || { code=$$?; [ $$code -ne 3 ] || exit $$code; \
	  echo "govulncheck could not run (no vulnerability database within reach?): known vulnerabilities were NOT checked"; }

.PHONY: bench
bench: ## benchmarks of the hot paths
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./internal/...

.PHONY: bench-load
bench-load: build generators ## the load engine beside wrk, oha, fortio, vegeta, hey, h2load, wrk2 and grpc-go: docs/explanation/benchmarks.md
	GO='$(GO)' tools/generators/install.sh nginx || echo "without nginx: benchload's own server takes its place"
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./test/benchload
	bin/benchload $(BENCHLOAD)

# A target that ends with "context deadline exceeded" and no input has found nothing: before Go 1.27 a
# busy machine can make the fuzzer take its own deadline for a failure (golang/go#75804).
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 20s) each
	@failed=; out=$$(mktemp); \
	for file in $$(grep -rl --include='*_test.go' '^func Fuzz' internal cmd); do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$$file"); do \
	    echo "$$(dirname "$$file") $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "./$$(dirname "$$file")" >"$$out" 2>&1 || \
	      { grep -q '^ *context deadline exceeded' "$$out" && ! grep -q 'Failing input written' "$$out"; } || failed="$$failed $$target"; \
	    cat "$$out"; \
	  done; \
	done; rm -f "$$out"; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

.PHONY: clean
clean: ## remove what was built; results in runs/ stay
	rm -rf bin
