# make lists its targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

GO        ?= go
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X github.com/tare-mesh/tare/internal/cli.buildVersion=$(VERSION)
TOOL      := $(GO) tool -modfile=tools/go.mod
# Many tests measure, and a busy machine can spoil one. gotestsum runs a failed test again, at most
# twice. A test that then passes is flaky: tools/flaky.sh counts them over all reports of a run.
FLAKY := bin/flaky
# $(call tests,PACKAGES,REPORT): REPORT is a file name that no other call uses.
tests      = mkdir -p $(FLAKY) && $(TOOL) gotestsum --format pkgname --rerun-fails=2 --rerun-fails-report=$(FLAKY)/$(2).txt --packages='$(1)' --
# Packages that link the Kubernetes client: `make e2e` tests them, with a cluster.
KUBE       := ./internal/kube/... ./internal/run/platform/kube/... ./internal/run/meter/kubelet/... \
              ./internal/run/meter/metricsapi/... ./internal/run/meter/prometheus/... ./internal/cli/kubecli/... ./cmd/tare-kube/...
MODULE     := github.com/tare-mesh/tare
# All other packages; evaluated only where it is used, because listing packages takes a second.
UNIT        = $(patsubst $(MODULE)%,.%,$(filter-out $(shell $(GO) list $(KUBE)),$(shell $(GO) list ./...)))
# Packages with goroutines that share state.
RACED      := ./internal/base/fetch ./internal/base/proc ./internal/inside/... ./internal/load/... ./internal/run/runner ./internal/run/platform/local ./internal/show/live
# Tests with Istio have a cluster of their own: a mesh is an object of the whole cluster.
WITH_ISTIO := ^TestKubernetes(Istio|Gateway|Uninstall)
# Load generators that `make e2e` installs and runs; empty: all.
GENERATORS ?= wrk h2load vegeta fortio
FUZZTIME  ?= 20s
KEEP      ?= 0
TARGETS   ?= .
BENCHTIME ?= 1s
DURATION  ?= 2h
SEED      ?= 1

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build tare and tare-agent into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/tare ./cmd/tare-agent

.PHONY: build-kube
build-kube: ## the same, and tare-kube, which measures on Kubernetes clusters
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/tare ./cmd/tare-agent ./cmd/tare-kube

.PHONY: build-plot
build-plot: ## build tare-plot, which draws figures into files (tare plot)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/tare-plot

.PHONY: quickstart
quickstart: build ## weigh a real Envoy sidecar on this machine, in about two minutes
	@bin/tare run examples/quickstart.yaml || { code=$$?; [ $$code -eq 3 ] || exit $$code; \
	  echo "some trials could not be used (exit code 3): the answer above rests on the others"; }

# Many tests wait for other processes, so more of them than processors run at the same time.
.PHONY: test
test: ## unit tests, in about a minute
	@rm -f $(FLAKY)/unit*.txt
	$(call tests,$(UNIT),unit) -short -p 4 -parallel 8
	@tools/flaky.sh $(FLAKY)

.PHONY: race
race: ## the race detector on all packages, in about six minutes
	$(call tests,./...,race) -race -short -p 2 -timeout 30m

.PHONY: generators
generators: ## install the load generators of the package registries into the user's cache
	GO='$(GO)' tools/generators/install.sh

.PHONY: consul
consul: ## build Consul from its Go module into the user's cache, once (about 12 minutes of a processor)
	GO='$(GO)' tools/consul/install.sh

.PHONY: e2e
e2e: build-kube bin/tare-cluster programs ## tests with the real Envoy, Consul, load generators, experiments, Kubernetes and Istio
	@rm -f $(FLAKY)/e2e*.txt
	$(MAKE) --no-print-directory -j 2 e2e-cluster e2e-istio
	$(MAKE) --no-print-directory e2e-here
	@tools/flaky.sh $(FLAKY)

# The two parts with a cluster run side by side: they mostly wait. The part on this machine follows alone,
# because many of its tests measure: beside two clusters on two cores, three of 2,245 passed only when repeated.
.PHONY: programs
programs:
	GO='$(GO)' tools/generators/install.sh $(GENERATORS)
	GO='$(GO)' tools/consul/install.sh
	tools/prometheus/install.sh
	tools/servers/install.sh
	tools/page/install.sh

.PHONY: e2e-here
e2e-here: # needs the programs
	$(call tests,$(RACED),e2e-race) -race -short -p 2 -timeout 30m
	$(call tests,$(filter-out ./internal/cli,$(UNIT)),e2e-here) -count=1 -timeout 60m -p 1
	$(call tests,./internal/cli,e2e-cli) -count=1 -timeout 60m

.PHONY: e2e-cluster
e2e-cluster: bin/tare-cluster
	bin/tare-cluster run --name e2e -- env -u MAKEFLAGS make --no-print-directory on-cluster

.PHONY: e2e-istio
e2e-istio: bin/tare-cluster
	bin/tare-cluster build --with istio
	bin/tare-cluster run --name e2eistio --with istio -- env -u MAKEFLAGS make --no-print-directory on-istio

.PHONY: on-cluster
on-cluster: # needs TARE_TEST_KUBECONFIG
	$(call tests,$(filter-out ./internal/kube/meshes ./internal/cli/kubecli,$(patsubst $(MODULE)%,.%,$(shell $(GO) list $(KUBE)))),e2e-cluster) -count=1 -timeout 60m -p 1 -parallel 4
	$(call tests,./internal/cli/kubecli,e2e-kubecli) -count=1 -timeout 60m -skip '$(WITH_ISTIO)'

.PHONY: on-istio
on-istio: # needs TARE_TEST_KUBECONFIG and Istio's charts and images
	$(call tests,./internal/kube/meshes,e2e-meshes) -count=1 -timeout 60m
	$(call tests,./internal/cli/kubecli,e2e-meshcli) -count=1 -timeout 60m -run '$(WITH_ISTIO)'

.PHONY: on-cadvisor
on-cadvisor: # on a cluster whose kubelet refreshes its counters every 10 to 20 s, as most do
	$(call tests,./internal/run/meter/kubelet,e2e-cadvisor) -count=1 -run AgainstControlGroup

.PHONY: e2e-all
e2e-all: export TARE_TEST_ALL := 1
e2e-all: ## make e2e, and what does not fit into it: the race detector everywhere, a kubelet with cAdvisor, the test cluster's own tests, every generator, long measurements
	$(MAKE) --no-print-directory e2e GENERATORS=
	$(MAKE) --no-print-directory race
	$(GO) test -C test/cluster -count=1 -timeout 30m -p 1 ./...
	bin/tare-cluster run --name e2ecad --cadvisor -- env -u MAKEFLAGS make --no-print-directory on-cadvisor
	@tools/flaky.sh $(FLAKY)

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
lint: ## gofmt, the word list, go vet, staticcheck, gosec, govulncheck
	@unformatted=$$(gofmt -l cmd internal test *.go); [ -z "$$unformatted" ] || { echo "not formatted:"; echo "$$unformatted"; exit 1; }
	$(GO) run ./test/words
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	$(GO) vet -C test/cluster ./...
	$(TOOL) staticcheck ./...
	cd test/cluster && $(GO) tool -modfile=../../tools/go.mod staticcheck ./...
	@tools/gosec.sh $(TOOL) gosec
	@$(TOOL) govulncheck ./... || { code=$$?; [ $$code -ne 3 ] || exit $$code; \
	  echo "govulncheck could not run (no vulnerability database within reach?): known vulnerabilities were NOT checked"; }

.PHONY: bench
bench: ## benchmarks of the hot paths
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./internal/...

.PHONY: bench-design
bench-design: build ## precision of designs at equal wall time: BENCHDESIGN='-blocks 12 -only carry-over'
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./test/benchdesign
	bin/benchdesign $(BENCHDESIGN)

.PHONY: bench-load
bench-load: build generators ## the load engine beside wrk, oha, fortio, vegeta, h2load, wrk2 and grpc-go: docs/explanation/benchmarks.md
	GO='$(GO)' tools/generators/install.sh nginx || echo "without nginx: benchload's own server takes its place"
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./test/benchload
	bin/benchload $(BENCHLOAD)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 20s) each, with its number of executions; KEEP=n keeps n new inputs of each
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' KEEP='$(KEEP)' TARGETS='$(TARGETS)' tools/fuzz.sh

.PHONY: soak
soak: build ## short trials for DURATION (2h) whose processes are killed and whose disks fill, drawn from SEED; figures in bin/soak.json
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./test/soak
	bin/soak -duration $(DURATION) -seed $(SEED) -o bin/soak.json

.PHONY: clean
clean: ## remove built programs; results in runs/ stay
	rm -rf bin
