package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/test/must"
)

// What disturbs one treatment of an interleaved block makes that treatment invalid, and not the one beside it: each has a
// deployment and counters of its own.
func TestUnconservedTreatmentOfARound(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real Envoy")
	}
	t.Parallel()
	const listens = `serve .*--listen '?([0-9.:]+)`
	for _, test := range []struct {
		name, disturbed string
		plant           func(t *testing.T, cfg *runner.Config, sink *events, trial string)
		wants           []string
	}{
		{"a client at the application without a mesh", "none", func(t *testing.T, cfg *runner.Config, sink *events, trial string) {
			client := &outsideClient{address: func(trial string) string { return provided(t, *cfg, trial, "commands.sh", listens) }}
			sink.on = eventsOf(trial, client.event(t))
		}, []string{" requests appeared between load and the application echo: ", "probable cause: a client outside the trial"}},
		{"a bypass", "envoy", func(t *testing.T, cfg *runner.Config, _ *events, disturbed string) {
			cfg.Platform.Deployer = decorated{cfg.Platform.Deployer, func(spec platform.Spec, d *platform.Deployment) {
				if spec.Trial.ID == disturbed {
					d.Running = twoWays{d.Running, "http://" + provided(t, *cfg, spec.Trial.ID, "commands.sh", listens) + "/"}
				}
			}}
		}, []string{" requests vanished between load and its sidecar: ", "probable cause: requests that bypass the proxies"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text := strings.NewReplacer("mesh: [none]", "mesh: [none, envoy]", "blocks: 1", "blocks: 1\norder: interleaved").Replace(conservedText)
			cfg, sink := real(t, text)
			_, p, _ := decode(t, text)
			var disturbed string
			for _, trial := range p.Trials {
				if trial.Treatment == test.disturbed {
					disturbed = trial.ID
				}
			}
			test.plant(t, &cfg, sink, disturbed)
			must.Get(runner.Run(t.Context(), cfg))(t)
			records, err := cfg.Dir.Records()
			if err != nil || len(records) != 2 || !slices.ContainsFunc(records, func(r result.Record) bool { return r.ID == disturbed }) {
				t.Fatalf("%d records of %+v, %v", len(records), p.Trials, err)
			}
			for _, r := range records {
				if r.Error != "" || r.Balance == nil || len(r.Balance.Equations) == 0 {
					t.Fatalf("%s: %s %+v", r.ID, r.Error, r.Warnings)
				}
				if r.ID == disturbed {
					refused(t, r, test.wants...)
				} else {
					accepted(t, r)
				}
			}
		})
	}
}

// A client that sends only while other treatments have the load is found too: the counters of a treatment are read
// before and after all slices, and each of its requests is counted.
func TestOutsideClientInSlicesOfOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("runs rounds of 8 s, and real Envoys")
	}
	t.Parallel()
	for _, test := range []struct{ mesh, want string }{
		{"reference", "between the sidecar of echo and its application: "},
		{"none", "between load and the application echo: "},
		{"envoy", "between the sidecar of echo and its application: "},
	} {
		t.Run(test.mesh, func(t *testing.T) {
			t.Parallel()
			beside := "none"
			if test.mesh == beside {
				beside = "reference"
			}
			text := strings.NewReplacer("mesh: [none]", fmt.Sprintf("mesh: [%s, %s]", beside, test.mesh), "blocks: 1", "blocks: 1\norder: interleaved",
				"measure: 1500ms", "measure: 4s").Replace(conservedText) // long enough for 20 requests on a busy machine
			cfg, sink := real(t, text)
			_, p, _ := decode(t, text)
			client := &idleClient{}
			for _, trial := range p.Trials {
				if trial.Treatment == test.mesh {
					client.trial = trial.ID
				}
			}
			sink.on = client.event(t, cfg)
			must.Get(runner.Run(t.Context(), cfg))(t)
			client.sending.Wait()
			records, err := cfg.Dir.Records()
			if err != nil || len(records) != 2 || client.sent < 20 {
				t.Fatalf("%d records, %d requests sent, %v", len(records), client.sent, err)
			}
			for _, r := range records {
				if r.Error != "" || r.Balance == nil {
					t.Fatalf("%s: %s %+v", r.ID, r.Error, r.Warnings)
				}
				if r.ID == client.trial {
					refused(t, r, fmt.Sprintf("%d requests appeared %s", client.sent, test.want))
				} else {
					accepted(t, r)
				}
			}
		})
	}
}

// idleClient sends requests to the application of one trial in the slices of the other trials, and in no own one.
type idleClient struct {
	trial   string
	sending sync.WaitGroup
	sent    int // answered requests
}

func (c *idleClient) event(t *testing.T, cfg runner.Config) func(result.Event) {
	return eventsOf(c.trial, func(e result.Event) {
		if e.Kind != result.KindPhase || e.Phase != "measure" {
			return
		}
		text, err := os.ReadFile(cfg.Dir.TrialFile(c.trial, result.ProvenanceDir+"/load-profile.json"))
		var p load.Profile
		if err = errors.Join(err, json.Unmarshal(text, &p)); err != nil || p.Slices == nil {
			t.Errorf("%v, slices %v", err, p.Slices)
			return
		}
		url := "http://" + provided(t, cfg, c.trial, "commands.sh", `serve .*--listen '?([0-9.:]+)`) + "/"
		c.sending.Go(func() { c.send(t.Context(), url, p) })
	})
}

// send sends in the first half of the slices of others: its answers come before the next slice.
func (c *idleClient) send(ctx context.Context, url string, p load.Profile) {
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for ; ctx.Err() == nil; <-pace.C {
		at := time.Since(p.Start)
		if at >= p.Warmup+p.Measure {
			return
		}
		own := p.Slices.Owners[p.Slices.Index(int64(at))] == p.Slices.Own
		if own || at < p.Warmup || at%p.Slices.Length > p.Slices.Length/2 {
			continue
		}
		if resp, err := http.Get(url); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			c.sent++
		}
	}
}

func eventsOf(trial string, on func(result.Event)) func(result.Event) {
	return func(e result.Event) {
		if e.Trial == trial {
			on(e)
		}
	}
}
