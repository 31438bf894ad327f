package runner_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/test/must"
)

const notConserved = "requests-not-conserved"

// conservedText is a short trial of one service. Its limits are wide: this is not a measurement.
const conservedText = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: conserved}
application: {topology: echo}
factors:
  mesh: [none]
  rate: [300]
  connections: [4]
phases: {warmup: 500ms, measure: 1500ms, drain: 1s}
blocks: 1
validity: {rateShortfall: 0.9, errorRatio: 1, lateness: 5s, unattributed: 0.5, generatorCPU: 1}
`

// one runs a single trial and returns its record.
func one(t *testing.T, cfg runner.Config) result.Record {
	t.Helper()
	records := ran(t, cfg, 1, -1)
	if r := records[0]; r.Error != "" || r.Balance == nil {
		t.Fatalf("%s %+v", r.Error, r.Warnings)
	}
	if found := records[0].Contradictions(); found != nil {
		t.Errorf("contradictions: %q", found)
	}
	for _, e := range records[0].Balance.Equations {
		t.Logf("%s: %d expected, %d counted, -%d +%d", e.Where, e.Expected, e.Counted, e.Fewer, e.More)
	}
	return records[0]
}

// refused checks that a trial is invalid because its requests are not conserved.
func refused(t *testing.T, r result.Record, wants ...string) {
	t.Helper()
	i := slices.IndexFunc(r.Warnings, func(w result.Warning) bool { return w.Code == notConserved })
	if i < 0 || r.Valid || !r.Warnings[i].Invalidates {
		t.Fatalf("valid: %v, %+v", r.Valid, r.Warnings)
	}
	t.Log(r.Warnings[i].Message)
	for _, want := range wants {
		must.Contain(t, r.Warnings[i].Message, want)
	}
}

// accepted checks that the requests of a trial are conserved, or why that is unknown.
func accepted(t *testing.T, r result.Record) {
	t.Helper()
	if slices.ContainsFunc(r.Warnings, func(w result.Warning) bool { return w.Code == notConserved }) || len(r.Balance.Equations)+len(r.Balance.Unchecked) == 0 {
		t.Errorf("%+v, unchecked %q", r.Warnings, r.Balance.Unchecked)
	}
}

// outsideClient sends 150 requests a second from the beginning of the measure phase to its end.
type outsideClient struct {
	address func(trial string) string
	sending sync.WaitGroup
	stop    context.CancelFunc
}

func (c *outsideClient) event(t *testing.T) func(result.Event) {
	return func(e result.Event) {
		switch {
		case e.Kind != result.KindPhase:
		case e.Phase == "measure":
			var ctx context.Context
			ctx, c.stop = context.WithCancel(t.Context())
			url := "http://" + c.address(e.Trial) + "/"
			c.sending.Go(func() { send(ctx, url) })
		case c.stop != nil:
			c.stop()
			c.sending.Wait()
		}
	}
}

func send(ctx context.Context, url string) {
	pace := time.NewTicker(time.Second / 150)
	defer pace.Stop()
	for ctx.Err() == nil {
		if resp, err := http.Get(url); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		<-pace.C
	}
}

// provided finds a text in a file of a trial's provenance.
func provided(t *testing.T, cfg runner.Config, trial, file, pattern string) string {
	b, err := os.ReadFile(cfg.Dir.TrialFile(trial, result.ProvenanceDir+"/"+file))
	if err != nil {
		t.Error(err)
		return ""
	}
	m := regexp.MustCompile(pattern).FindSubmatch(b)
	if m == nil {
		t.Errorf("%s has no %s", file, pattern)
		return ""
	}
	return string(m[1])
}

// Requests of a client outside the trial, at the application's own port or at a proxy, make it invalid.
func TestOutsideClient(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, mesh, file, pattern, want string }{
		{"the application", "none", "commands.sh", `serve .*--listen '?([0-9.:]+)`, " requests appeared between load and the application echo: "},
		{"the application behind Envoy", "envoy", "commands.sh", `serve .*--listen '?([0-9.:]+)`, " requests appeared between the sidecar of echo and its application: "},
		{"the load's Envoy", "envoy", "load-profile.json", `"http://([0-9.:]+)/"`, " requests appeared between load and its sidecar: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.mesh != "none" && testing.Short() {
				t.Skip("starts a real Envoy")
			}
			t.Parallel()
			cfg, sink := real(t, strings.Replace(conservedText, "[none]", "["+test.mesh+"]", 1))
			client := &outsideClient{address: func(trial string) string { return provided(t, cfg, trial, test.file, test.pattern) }}
			sink.on = client.event(t)
			refused(t, one(t, cfg), test.want, "probable cause: a client outside the trial")
		})
	}
}

// edited is the mesh envoy with another configuration.
func edited(t *testing.T, cfg *runner.Config, pairs ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real Envoy")
	}
	d := cfg.Meshes["envoy"]
	local := *d.Local
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(local.Sidecar.Config, pairs[i]) {
			t.Fatalf("the configuration has no %s", pairs[i])
		}
		local.Sidecar.Config = strings.ReplaceAll(local.Sidecar.Config, pairs[i], pairs[i+1])
	}
	d.Local = &local
	cfg.Meshes["envoy"] = d
}

const failingText = "application: {services: [{name: echo, errors: {ratio: 0.1, status: 503}}]}"

// An Envoy that repeats failed requests makes a trial invalid, unless its definition declares it.
func TestHiddenRetries(t *testing.T) {
	t.Parallel()
	for _, declared := range []bool{false, true} {
		text := strings.Replace(strings.Replace(conservedText, "[none]", "[envoy]", 1), "application: {topology: echo}", failingText, 1)
		cfg, _ := real(t, text)
		hiddenRetries(t, &cfg)
		d := cfg.Meshes["envoy"]
		d.Provides.Retries = declared
		cfg.Meshes["envoy"] = d
		r := one(t, unverified(cfg)) // its probes find retries too, if one of them fails
		if declared {
			accepted(t, r)
			continue
		}
		refused(t, r, " requests appeared in the sidecar of load (outbound to echo): ", "; the proxy counted ", "probable cause: a proxy that repeats requests")
	}
}

// hiddenRetries lets Envoy repeat failed requests.
func hiddenRetries(t *testing.T, cfg *runner.Config) {
	t.Helper()
	const timeout = "                  timeout: 0s\n" // of the outbound route
	edited(t, cfg, timeout, timeout+"                  retry_policy: {retry_on: 5xx, num_retries: 2}\n",
		`max_retries: {{if eq $.Options.retries "true"}}4294967295{{else}}0{{end}}`, "max_retries: 1000")
}

// An Envoy that answers from its cache makes a trial invalid.
func TestCacheInBetween(t *testing.T) {
	t.Parallel()
	cfg, _ := real(t, strings.Replace(conservedText, "[none]", "[envoy]", 1))
	cacheInBetween(t, &cfg)
	// Its probes find the cache too.
	refused(t, one(t, unverified(cfg)), " requests vanished in the sidecar of load (outbound to echo): ", "probable cause: a proxy that answers itself, such as a cache")
}

// cacheInBetween lets Envoy answer from a cache.
func cacheInBetween(t *testing.T, cfg *runner.Config) {
	t.Helper()
	const filters, route = "          http_filters:\n", "route: {cluster: app, timeout: 0s}"
	edited(t, cfg, filters, filters+`          {{- if not $.Inbound}}
          - name: envoy.filters.http.cache
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.cache.v3.CacheConfig
              typed_config: {"@type": type.googleapis.com/envoy.extensions.http.cache.simple_http_cache.v3.SimpleHttpCacheConfig}
          {{- end}}
`, route, route+"\n                response_headers_to_add: [{header: {key: cache-control, value: max-age=60}}]")
}

// decorated changes the deployments of a platform.
type decorated struct {
	platform.Deployer
	change func(platform.Spec, *platform.Deployment)
}

func (p decorated) Deploy(ctx context.Context, spec platform.Spec) (*platform.Deployment, error) {
	d, err := p.Deployer.Deploy(ctx, spec)
	if err != nil {
		return nil, err
	}
	p.change(spec, d)
	return d, nil
}

// unverified lets every deployment pass its verification.
func unverified(cfg runner.Config) runner.Config {
	cfg.Platform.Deployer = decorated{cfg.Platform.Deployer, func(_ platform.Spec, d *platform.Deployment) { d.Verify = passing{}.Verify }}
	return cfg
}

type passing struct{}

func (passing) Verify(context.Context, platform.Probe) (platform.Verification, error) {
	return platform.Verification{Checks: []check.Check{{Name: "answer", OK: true}}}, nil
}

// twoWays has the load sent to its sidecar and to the application itself.
type twoWays struct {
	platform.Running
	direct string
}

func (w twoWays) Entry() []string { return append(w.Running.Entry(), w.direct) }

// Requests that bypass the proxies make a trial invalid.
func TestBypass(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real Envoy")
	}
	t.Parallel()
	cfg, _ := real(t, strings.Replace(conservedText, "[none]", "[envoy]", 1))
	cfg.Platform.Deployer = decorated{cfg.Platform.Deployer, func(spec platform.Spec, d *platform.Deployment) {
		d.Running = twoWays{d.Running, "http://" + provided(t, cfg, spec.Trial.ID, "commands.sh", `serve .*--listen '?([0-9.:]+)`) + "/"}
	}}
	refused(t, one(t, cfg), " requests vanished between load and its sidecar: ", " requests appeared between the sidecar of echo and its application: ",
		"probable cause: requests that bypass the proxies")
}

// Trials of every kind conserve their requests.
func TestConservedRequests(t *testing.T) {
	t.Parallel()
	const services = "application: {topology: echo}"
	for _, test := range []struct {
		name, mesh string
		edits      []string
		short      bool
	}{
		{"no proxy", "none", nil, false},
		{"TCP", "none", []string{"rate: [300]", "rate: [300]\n  protocol: [tcp]\n  requestSize: [300B]"}, true},
		{"chain", "none", []string{"topology: echo", "topology: chain-3"}, false},
		{"calls with a probability, redirects and retries", "none", []string{services, `application:
  services:
  - {name: front, calls: [{service: back, probability: 0.3}, {service: back, path: /old, followRedirects: true, alongside: true}, {service: flaky, retries: 3}]}
  - {name: back, redirects: {/old: /}}
  - {name: flaky, errors: {ratio: 0.2, status: 500}}`}, true},
		{"as many as possible", "none", []string{"rate: [300]", "rate: [max]"}, false},
		{"a killed application", "none", []string{"blocks: 1", "blocks: 1\nfaults: [{kind: kill, at: 300ms, for: 500ms, target: {service: echo}}]"}, true},
		{"chain through Envoy", "envoy", []string{"topology: echo", "topology: chain-3"}, false},
		{"replicas", "envoy", []string{"rate: [300]", "rate: [300]\n  replicas: [3]"}, false},
		{"HTTP/2", "envoy", []string{"rate: [300]", "rate: [300]\n  protocol: [http2]"}, false},
		{"gRPC", "envoy", []string{"rate: [300]", "rate: [300]\n  protocol: [grpc]"}, false},
		{"connections", "envoy-tcp", nil, false},
		{"TCP through Envoy", "envoy-tcp", []string{"rate: [300]", "rate: [300]\n  protocol: [tcp]\n  requestSize: [300B]"}, false},
		{"errors", "envoy", []string{services, failingText}, false},
		{"as many as Envoy can", "envoy", []string{"rate: [300]", "rate: [max]"}, false},
		{"more than it can", "envoy", []string{"rate: [300]", "rate: [300]", services, "application: {services: [{name: echo, time: 40ms}]}"}, false},
		{"a killed application behind Envoy", "envoy-retries", []string{"blocks: 1", "blocks: 1\nfaults: [{kind: kill, at: 300ms, for: 500ms, target: {service: echo, replica: 0}}]", "rate: [300]", "rate: [300]\n  replicas: [2]"}, false},
		{"a killed sidecar, with retries", "envoy-retries", []string{"blocks: 1", "blocks: 1\nfaults: [{kind: kill, at: 300ms, for: 500ms, target: {service: echo, replica: 0, plane: data}}]", "rate: [300]", "rate: [300]\n  replicas: [2]"}, false},
		{"a frozen sidecar", "envoy", []string{"blocks: 1", "blocks: 1\nload: {timeout: 100ms}\nfaults: [{kind: pause, at: 300ms, for: 500ms, target: {service: echo, plane: data}}]"}, false},
		{"a slow service that times out", "envoy", []string{"blocks: 1", "blocks: 1\nload: {timeout: 50ms}", services, "application: {services: [{name: echo, time: 'buckets(1ms:9, 200ms:1)'}]}"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.short && testing.Short() {
				t.Skip("takes seconds; others are enough for a short run")
			}
			t.Parallel()
			text := strings.Replace(conservedText, "[none]", "["+test.mesh+"]", 1)
			for i := 0; i < len(test.edits); i += 2 {
				if !strings.Contains(text, test.edits[i]) {
					t.Fatalf("no %s", test.edits[i])
				}
				text = strings.Replace(text, test.edits[i], test.edits[i+1], 1)
			}
			cfg, _ := real(t, text)
			r := one(t, unverified(cfg)) // verification refuses answers with errors
			accepted(t, r)
			if restarted := strings.Contains(strings.Join(r.Balance.Unchecked, ""), "echo-0/app was restarted"); restarted != (strings.Contains(text, "kind: kill") && !strings.Contains(text, "plane: data")) || len(r.Balance.Equations) == 0 && !restarted {
				t.Errorf("%d equations", len(r.Balance.Equations))
			}
			t.Logf("unchecked: %q, %+v", r.Balance.Unchecked, r.Load.Whole)
		})
	}
}

// The record of a platform without counters has the reason.
func TestUncountedRequests(t *testing.T) {
	t.Parallel()
	cfg, sink := real(t, conservedText)
	cfg.Platform.Deployer = decorated{cfg.Platform.Deployer, func(_ platform.Spec, d *platform.Deployment) { d.RequestCounts = nil }}
	r := one(t, cfg)
	if len(r.Balance.Equations) != 0 || len(r.Balance.Unchecked) != 1 {
		t.Errorf("%+v", r.Balance)
	}
	if !slices.ContainsFunc(sink.list(), func(e result.Event) bool {
		return e.Kind == result.KindLog && strings.Contains(e.Message, "requests sent and served were not compared")
	}) {
		t.Error("no event")
	}
}
