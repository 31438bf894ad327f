# make lists its targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

GO        ?= go
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X github.com/tare-mesh/tare/internal/cli/console.buildVersion=$(VERSION)
TOOL      := $(GO) tool -modfile=tools/go.mod
# Programs, their tests and tools are compiled alike, so that an empty cache fills once: without symbols for debuggers,
# which takes a tenth less time, and without cgo, which only the race detector needs.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -trimpath -gcflags=all=-dwarf=false)
# Two modules: this one, and kube/ with all that links Kubernetes. Each is built by its own go.mod, as a release is; go.work is
# for editors and for the go command by hand.
export GOWORK := off
IN_KUBE   := cd kube &&
# What `go test -json` prints of every call, for durations and for tools/select.sh; REPORT.repeated has the tests run again.
REPORTS := bin/tests
# $(call tests,PACKAGES,REPORT,PREFIX): REPORT is a file name that no other call uses; PREFIX starts the command. A failed
# test is repeated at most twice when the others have ended, and no test if more than eight failed. $(call ended,REPORT)
# follows it: a process that died fails the run, although the tests of its repetition pass.
RERUN     :=
tests      = mkdir -p $(REPORTS) && rm -f $(REPORTS)/$(2).* && $(3) '$(CURDIR)/tools/memory.sh' $(TOOL) gotestsum --format pkgname --jsonfile=$(REPORTS)/$(2).json --rerun-fails=2 --rerun-fails-max-failures=8 --rerun-fails-abort-on-data-race $(RERUN) --rerun-fails-report=$(REPORTS)/$(2).repeated --packages="$(1)" --
ended      = '$(CURDIR)/tools/ended.sh' '$(abspath $(REPORTS)/$(1).json)'
# Shows the tests that were repeated in the reports of a pattern, and the ones repeating an experiment that a busy machine
# disturbed (their attribute).
repeated   = for report in $(REPORTS)/$(1).repeated; do [ ! -s $$report ] || sed 's/^/repeated: /' $$report; done; \
             for report in $(REPORTS)/$(1).json; do [ ! -s $$report ] || awk -F'"' '$$8 == "attr" && $$20 == "disturbed" { print "disturbed: " $$12 " " $$16 ": " $$24 }' $$report; done
# $(call left,PACKAGES,REPORT,FLAGS,PREFIX): the tests that `make test` left out.
left       = $(call selected,left $(REPORTS)/unit.json $(1),$(2),$(3),$(4))
# $(call selected,WHICH,REPORT,FLAGS,PREFIX): the tests that tools/select.sh prints, if there are any.
selected   = selected="$$(GO='$(GO)' tools/select.sh $(1))"; packages="$$(sed -n 2p <<<"$$selected")"; \
             [ -z "$$packages" ] || { $(call tests,$$packages,$(2),$(4)) -count=1 $(3) -run "$$(sed -n 1p <<<"$$selected")" && $(call ended,$(2)); }
MODULE     := github.com/tare-mesh/tare
KUBECLI    := ./internal/cli/kubecli
# Packages whose tests take longest: go test begins with the first packages of its list.
LONGEST    := ./internal/cli ./internal/run/platform/local ./internal/run/runner ./internal/load/engine ./internal/show/report ./internal/answer ./internal/compare
# $(call listed,PATTERNS): a package that cannot be listed is an error. Without it no package would be.
listed      = $(shell $(GO) list $(1))$(if $(filter-out 0,$(.SHELLSTATUS)),$(error go list $(1) failed))
# All packages of this module; evaluated only where it is used, because listing packages takes a second.
UNIT        = $(LONGEST) $(filter-out $(LONGEST),$(patsubst $(MODULE)%,.%,$(call listed,./...)))
# Packages with goroutines that share state.
RACED      := ./internal/base/proc ./internal/inside/... ./internal/load/engine ./internal/load/http2 \
              ./internal/load/record ./internal/load/websocket ./internal/load/worker ./internal/run/runner ./internal/run/platform/local ./internal/show/live
# Packages whose tests measure: they run alone.
MEASURING  := ./internal/inside/service ./internal/load/engine ./internal/run/generator
# Packages whose tests run experiments or load servers, side by side and without judging a cost.
RUNNING    := ./internal/cli ./test/load
# Packages whose tests compute and judge no time: they run beside the clusters.
BESIDE     := ./test/action ./internal/show/page ./internal/experiment/mesh ./internal/show/serve ./internal/show/plot ./internal/load/http1 ./internal/base/fetch
# Those of the other packages wait.
WAITING     = $(filter-out $(MEASURING) $(RUNNING) $(BESIDE),$(UNIT))
# $(call part,NAME): the tests that package test/part has in a part, in the command that follows.
part        = export TARE_TEST_PART=$(1);
# Meshes that are built from source.
BUILT       = istio$(if $(TARE_TEST_ALL),$(comma)contour$(comma)envoy-gateway)
comma      := ,
# Load generators that `make e2e` installs and runs; empty: all.
GENERATORS ?= wrk vegeta fortio
FUZZTIME  ?= 20s
KEEP      ?= 0
TARGETS   ?= .
# A copy of the vulnerability database for `make lint`: file:///DIRECTORY.
VULNDB    ?=
BENCHTIME ?= 1s

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build tare and tare-agent into bin/
	@echo 'compiling tare: about half a minute the first time, then seconds'
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/tare ./cmd/tare-agent

.PHONY: build-kube
build-kube: ## the same, and tare-kube: Kubernetes, figures in files, databases
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/tare ./cmd/tare-agent
	$(GO) build -C kube -ldflags '$(LDFLAGS)' -o ../bin/ ./cmd/tare-kube

.PHONY: pictures
pictures: build ## draw the figures of README and methodology from a run of the quickstart; RESULTS=DIR takes an earlier one
	@set -e; dir='$(RESULTS)'; if [ -z "$$dir" ]; then case '$(VERSION)' in *-dirty) echo 'pictures: commit first: nobody can build $(VERSION) again' >&2; exit 2;; esac; work=$$(mktemp -d /tmp/tare-pictures.XXXXXX); trap 'rm -rf "$$work"' EXIT; mkdir $$work/bin; cp bin/tare bin/tare-agent $$work/bin; cp -r examples $$work; (cd $$work; bin/tare run examples/quickstart.yaml --out quickstart); dir=$$work/quickstart; fi; $(GO) run ./test/pictures "$$dir"

.PHONY: quickstart
quickstart: build ## measure a real Envoy sidecar on this machine, in 45 s
	@bin/tare run examples/quickstart.yaml || { code=$$?; [ $$code -eq 3 ] || exit $$code; \
	  echo "some trials could not be used (exit code 3): the result above is of the other trials"; }

# Many tests wait for other processes, so more of them than processors run at the same time.
.PHONY: test
# go vet examines all dependencies too, a seventh of the time with an empty cache. `make lint` and the calls of `make e2e` run it.
# Test processes are short: with less garbage collection computing ones use a quarter less CPU.
test: export GOGC := 400
# Four packages start tare or tare-agent, which are linked once for all.
test: export TARE_TEST_PROGRAMS := $(CURDIR)/bin
test: build ## unit tests, in about a minute
	$(call tests,$(UNIT),unit) -vet=off -short -p 4 -parallel 8 -timeout 10m
	@$(call ended,unit); $(call repeated,unit)

$(REPORTS)/unit.json:
	$(MAKE) --no-print-directory test

.PHONY: race
race: ## the race detector on all packages, in about six minutes
	export CGO_ENABLED=1 TARE_TEST_ALL=; $(call tests,./...,race) -race -short -p 2 -timeout 30m
	@$(call ended,race)
	$(MAKE) --no-print-directory race-kube; $(call repeated,race*)

.PHONY: race-kube
race-kube:
	$(IN_KUBE) export CGO_ENABLED=1 TARE_TEST_ALL=; $(call tests,./...,race-kube) -race -short -p 2 -timeout 30m
	@$(call ended,race-kube)

.PHONY: generators
generators: ## install the load generators of the package registries into the user's cache
	GO='$(GO)' tools/generators/install.sh

.PHONY: consul
consul: ## build Consul from its Go module into the user's cache, once (about 12 minutes of a processor)
	GO='$(GO)' tools/consul/install.sh

# The parts with a cluster mostly wait, so all run at the same time, beside the installation of programs. Experiments follow
# when the clusters without Istio are gone, beside Istio's, and then tests that need processors: beside three clusters some of
# both passed only when repeated. Without Istio the race detector, and tests that judge no time, begin at once, at a low
# priority: a cluster with its tests uses 0.2 of a processor.
CLUSTERS := e2e-cluster e2e-kubecli e2e-kubecli-second
# Istio's clusters run if their inputs differ from those with which they passed last.
ISTIO    := e2e-istio e2e-meshes
CHANGED   = $(if $(filter $(shell cat test/istio.sha256 2>/dev/null || echo none),$(shell GO='$(GO)' tools/istio-inputs.sh || echo unknown)),,$(ISTIO))
PARTS     = programs $(CLUSTERS) $(CHANGED) e2e-running e2e-beside e2e-race e2e-waiting
AFTER    ?=
# With FAILED, a file, a part that fails is listed there, and stops no part that follows it.
FAILED   ?=
# Parts whose failed tests are repeated when all parts have ended: beside clusters a busy machine disturbs experiments each time.
AGAIN    := e2e-running e2e-waiting
or_listed = || $(if $(FAILED),{ echo $@ >>$(FAILED); },exit 1)

.PHONY: e2e
e2e: export TARE_TEST_PROGRAMS := $(CURDIR)/bin
e2e: build-kube bin/tare-cluster $(REPORTS)/unit.json ## what make test leaves out: the real Envoy, load generators, experiments, Kubernetes, and Istio if changed
	@GO='$(GO)' tools/disk.sh
	@rm -f bin/failed $(REPORTS)/e2e*
	@failed=0; inputs="$$(GO='$(GO)' tools/istio-inputs.sh)"; parts='$(PARTS)'; \
	$(MAKE) --no-print-directory -k -j $(or $(JOBS),$(words $(PARTS))) FAILED=bin/failed AFTER='$(CLUSTERS) e2e-running' $$parts || failed=1; \
	[ $$failed = 1 ] || [ "$${parts/e2e-istio/}" = "$$parts" ] || grep -Eqs '^(program-|e2e-(istio|meshes)$$)' bin/failed || echo "$$inputs" >test/istio.sha256; \
	$(MAKE) --no-print-directory -k FAILED=bin/failed e2e-measuring || failed=1; \
	for part in $(AGAIN); do ! grep -qxs "$$part" bin/failed || ! $(MAKE) --no-print-directory "$$part-again" || sed -i "/^$$part$$/d" bin/failed; done; \
	[ ! -s bin/failed ] || { echo "failed: $$(xargs <bin/failed)"; failed=1; }; \
	$(call repeated,e2e*); exit $$failed

.PHONY: programs program-generators program-consul program-prometheus program-servers program-page program-kubernetes program-istio
programs: $(if $(TARE_TEST_ALL),program-consul) program-page
program-consul:
	GO='$(GO)' tools/consul/install.sh
program-generators: # this and the next four use the package manager: one after another
	GO='$(GO)' tools/generators/install.sh $(GENERATORS) $(or_listed)
program-prometheus: program-generators
	tools/prometheus/install.sh $(or_listed)
program-servers: program-prometheus
	tools/servers/install.sh $(or_listed)
program-page: program-servers
	tools/page/install.sh $(or_listed)
program-kubernetes: program-page bin/tare-cluster
	bin/tare-cluster build
program-istio: program-kubernetes
	bin/tare-cluster build --with $(BUILT)

.PHONY: e2e-beside e2e-race e2e-waiting $(AGAIN:=-again)
e2e-waiting: RERUN := --rerun-fails=0
e2e-beside: programs
	@$(call left,$(BESIDE),e2e-beside,-timeout $(or $(TIMEOUT),30m) -p 2 -parallel 4,nice -n 15) $(or_listed)
e2e-beside e2e-race: $(if $(filter $(ISTIO),$(MAKECMDGOALS)),$(AFTER)) # at a low priority
e2e-race:
	@export CGO_ENABLED=1; $(call part,others) $(call tests,$(RACED),e2e-race,nice -n 15) -race -short -p 2 -parallel 4 -timeout 10m && $(call ended,e2e-race) $(or_listed)
e2e-waiting: programs $(AFTER)
	@$(call left,$(WAITING),e2e-waiting,-timeout $(or $(TIMEOUT),30m) -p 4 -parallel 8) $(or_listed)

$(AGAIN:=-again): e2e-%-again: # one after another, on a machine that does nothing else
	@$(call ended,e2e-$*) && $(call selected,failed $(REPORTS)/e2e-$*.json,$@,-timeout $(or $(TIMEOUT),30m) -p 1 -parallel 1)

.PHONY: e2e-measuring e2e-running e2e-alone
e2e-running: RERUN := --rerun-fails=0
e2e-measuring: programs
	@$(call left,$(MEASURING),e2e-measuring,-timeout $(or $(TIMEOUT),10m) -p 1) $(or_listed)
	@{ $(call part,deciding) $(call tests,./internal/cli,e2e-deciding) -count=1 -timeout $(or $(TIMEOUT),15m) && $(call ended,e2e-deciding); } $(or_listed)
e2e-running: programs $(filter $(CLUSTERS),$(AFTER))
	@$(call part,others) $(call left,$(RUNNING),e2e-running,-timeout $(or $(TIMEOUT),40m) -p 2 -parallel 3) $(or_listed)
# They judge measurements: alone on the machine.
e2e-alone: programs
	@$(call part,alone) $(call tests,./internal/cli,e2e-alone) -count=1 -timeout 20m && $(call ended,e2e-alone)

# $(call on,CLUSTER,OPTIONS,TARGET): with the CPU weight of the tests on this machine, so that five clusters do not starve them
on = bin/tare-cluster run --name $(1) --cpu-shares 1024 $(2) -- env -u MAKEFLAGS make --no-print-directory $(3) $(or_listed)

.PHONY: e2e-cluster e2e-kubecli e2e-kubecli-second e2e-istio e2e-meshes
e2e-cluster: program-kubernetes
	$(call on,e2e,,on-cluster)
e2e-kubecli: program-kubernetes
	$(call on,e2ecli,,on-others)
e2e-kubecli-second: program-kubernetes
	$(call on,e2ecli2,,on-second)
e2e-istio: program-istio
	$(call on,e2eistio,--with istio,on-istio)
e2e-meshes: program-istio
	$(call on,e2emeshes,--with $(BUILT),on-meshes)

.PHONY: e2e-test-cluster
e2e-test-cluster: RERUN := --rerun-fails-run-root-test # parts of its test depend on earlier ones
e2e-test-cluster: TOOL := $(GO) tool -modfile=../../tools/go.mod
e2e-test-cluster: REPORTS := $(CURDIR)/$(REPORTS)
e2e-test-cluster:
	cd test/cluster && $(call tests,./...,e2e-test-cluster) -count=1 -timeout 10m -p 1
	@$(call ended,e2e-test-cluster)

# Tests in kube/, whose tools and reports are those of this directory. All but the first need TARE_TEST_KUBECONFIG.
ON := on-others on-second on-istio on-meshes on-nodes
race-kube on-cluster on-cadvisor $(ON): TOOL := $(GO) tool -modfile=../tools/go.mod
race-kube on-cluster on-cadvisor $(ON): REPORTS := $(CURDIR)/$(REPORTS)

.PHONY: on-cluster on-cadvisor $(ON)
on-cluster:
	$(IN_KUBE) $(call tests,$(filter-out ./internal/meshes $(KUBECLI),$(patsubst $(MODULE)/kube%,.%,$(call listed,-C kube ./...))),e2e-cluster) -count=1 -timeout $(or $(TIMEOUT),15m) -p 1 -parallel 8
	@$(call ended,e2e-cluster)
on-cadvisor: # on a cluster whose kubelet refreshes its counters every 10 to 20 s, as most do
	$(IN_KUBE) $(call part,cadvisor) $(call tests,./internal/meter/kubelet,e2e-cadvisor) -count=1
	@$(call ended,e2e-cadvisor)
$(ON): # the part of that name; the last three with Istio's charts and images, the last on three nodes
	$(IN_KUBE) $(call part,$(@:on-%=%)) $(call tests,$(KUBECLI) $(if $(filter on-meshes,$@),./internal/meshes),e2e-$(@:on-%=%)) -count=1 -timeout $(or $(TIMEOUT),45m) -p 1
	@$(call ended,e2e-$(@:on-%=%))

# Fewer parts at a time than e2e: they have more tests. The race detector has a part of its own.
.PHONY: e2e-all
e2e-all: export TARE_TEST_ALL := 1
# Packages may take longer than in e2e: they have more tests, with all generators and charts.
e2e-all: export TIMEOUT := 60m
e2e-all: build-kube ## make e2e, and what does not fit into it: docs/how-to/testing.md
	@trap 'exit 130' INT; failed=; part() { echo "part of e2e-all: $$1"; "$${@:2}" || failed+=" $$1;"; }; \
	part 'programs of release tests' tools/release/install.sh; \
	part 'unit tests, whose report has what the next part runs' env TARE_TEST_ALL= $(MAKE) --no-print-directory test; \
	part 'e2e with all generators' $(MAKE) --no-print-directory e2e GENERATORS= JOBS=4 PARTS='programs $(CLUSTERS) $(ISTIO) e2e-running e2e-beside e2e-waiting'; \
	part 'tests that measure, alone' $(MAKE) --no-print-directory e2e-alone; \
	part 'race detector' $(MAKE) --no-print-directory race; \
	part 'forecasts' $(MAKE) --no-print-directory bench-forecast; \
	part 'test cluster' $(MAKE) --no-print-directory e2e-test-cluster; \
	part 'counters of cAdvisor' bin/tare-cluster run --name e2ecad --cadvisor -- env -u MAKEFLAGS make --no-print-directory on-cadvisor; \
	part 'three nodes' bin/tare-cluster run --name e2enodes --nodes 3 --with $(if $(TARE_ZTUNNEL),istio-ambient,istio) -- env -u MAKEFLAGS make --no-print-directory on-nodes; \
	$(call repeated,*); \
	[ -z "$$failed" ] || { echo "failed:$${failed%;}"; exit 1; }

.PHONY: bin/tare-cluster
bin/tare-cluster:
	$(GO) build -C test/cluster -o ../../bin/ ./cmd/tare-cluster

.PHONY: cluster
cluster: bin/tare-cluster ## bring up a real Kubernetes on this machine and leave it up (root; docs/how-to/testing.md)
	@bin/tare-cluster up

.PHONY: cluster-down
cluster-down: bin/tare-cluster ## take it down whole
	@bin/tare-cluster down

.PHONY: lint
lint: ## gofmt, the word list, go vet, staticcheck, actionlint, gosec, govulncheck
	@unformatted=$$(gofmt -l cmd internal kube test *.go); [ -z "$$unformatted" ] || { echo "not formatted:"; echo "$$unformatted"; exit 1; }
	$(GO) run ./test/words
	@since="$$(git log --diff-filter=A --format=%h -1 -- test/words/prose.go 2>/dev/null)"; [ -z "$$since" ] || $(GO) run ./test/words -commits "$$since.."
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	$(GO) vet -C kube ./...
	GOOS=darwin $(GO) vet -C kube ./...
	$(GO) vet -C test/cluster ./...
	$(GO) vet -C tools/release .
	$(TOOL) staticcheck ./...
	$(IN_KUBE) $(GO) tool -modfile=../tools/go.mod staticcheck ./...
	cd test/cluster && $(GO) tool -modfile=../../tools/go.mod staticcheck ./...
	$(TOOL) actionlint -shellcheck= -pyflakes=
	@tools/gosec.sh $(TOOL) gosec
	@{ $(TOOL) govulncheck $(if $(VULNDB),-db $(VULNDB)) ./... && $(IN_KUBE) $(GO) tool -modfile=../tools/go.mod govulncheck $(if $(VULNDB),-db $(VULNDB)) ./...; } || { code=$$?; [ $$code -ne 3 ] || exit $$code; \
	  echo "govulncheck could not run (no vulnerability database within reach?): known vulnerabilities were NOT checked"; }

.PHONY: bench
bench: ## benchmarks of the hot paths
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./internal/...
	$(GO) test -C kube -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./internal/...

.PHONY: bench-design
bench-design: build ## precision of designs at equal wall time; planted costs: BENCHDESIGN='-blocks 12 -only planted'
	$(GO) build -o bin/ ./test/benchdesign
	bin/benchdesign $(BENCHDESIGN)

.PHONY: finding
finding: build-kube ## measure a finding again, and add the run to its page: NAME=nginx-keepalive
	@set -e; dir=runs/$(NAME)-$$(date -u +%Y%m%dT%H%M%S); load=$$(cut -d ' ' -f 1 /proc/loadavg); \
	bin/tare run examples/findings/$(NAME).yaml --out $$dir || case $$? in 3 | 4 | 5) ;; *) exit 1 ;; esac; \
	$(GO) run ./test/findings -add $$dir -load $$load; \
	bin/tare plot $$dir -o docs/findings/pictures/$(NAME).svg

.PHONY: example
example: build ## install what an example or a finding needs into bin/, and run it: NAME=opentelemetry-python OUT=DIR
	@tools/examples/install.sh '$(NAME)'
	@bin/tare run $(firstword $(wildcard examples/findings/$(NAME).yaml examples/$(NAME).yaml)) $(if $(OUT),--out '$(OUT)') || { code=$$?; [ $$code -ge 3 ] && [ $$code -le 5 ]; }

.PHONY: proxies
proxies: build ## measure one more version of a proxy, and add it to docs/findings/proxies.md: VERSIONS='nginx=/opt/nginx envoy@1.39.3'
	@$(GO) run ./test/findings -measure $(VERSIONS)

.PHONY: bench-forecast
bench-forecast: build ## forecasts of 48 applications, drawn at random, beside what they cost with Envoy: BENCHFORECAST='-seed 2'
	$(GO) build -o bin/ ./test/forecast
	bin/forecast $(BENCHFORECAST)

.PHONY: bench-load
bench-load: build generators ## the load engine beside wrk, oha, fortio, vegeta, h2load, wrk2 and grpc-go: docs/explanation/benchmarks.md
	GO='$(GO)' tools/generators/install.sh nginx h2load || echo "without nginx: benchload's own server takes its place"
	$(GO) build -o bin/ ./test/benchload
	bin/benchload $(BENCHLOAD)

.PHONY: mutation
mutation: ## change arithmetic, one operator or number at a time, and count the changes that tests find; MUTATION='-n 400 -seed 7'
	$(GO) run ./test/mutation $(MUTATION) ./internal/stats ./internal/compare ./internal/figures ./internal/answer ./internal/importer

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 20s) each, with its number of executions; KEEP=n keeps n new inputs of each
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' KEEP='$(KEEP)' TARGETS='$(TARGETS)' tools/fuzz.sh

.PHONY: release-snapshot
release-snapshot: ## archives, deb, rpm, apk, images, SBOMs and provenance in bin/release; TARGETS='linux/amd64', SIGNING_KEY=FILE
	GO='$(GO)' VERSION='$(VERSION)' tools/release/build.sh

.PHONY: release-test
release-test: ## build a release, and install and run it, as root
	tools/release/install.sh
	TARE_TEST_ALL=1 $(GO) test -count=1 -timeout 60m ./test/release

.PHONY: site-test
site-test: ## build the site and open its pages in Chromium
	tools/page/install.sh
	TARE_TEST_ALL=1 $(GO) test -count=1 -timeout 30m ./test/site

.PHONY: site
site: build ## the documentation and a gallery of reports as a site in bin/site, with versions and search
	VERSION='$(VERSION)' NO_MKDOCS_2_WARNING=1 tools/site/build.sh

.PHONY: gallery
gallery: build ## repeat the gallery's runs, in twenty minutes, and pack their results; ONLY='ladder ab'
	tools/site/gallery.sh $(ONLY)

.PHONY: clean
clean: ## remove built programs; results in runs/ stay
	rm -rf bin
