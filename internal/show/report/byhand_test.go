package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// What hands do is a table and a file, and in no estimate.
func TestByHandSection(t *testing.T) {
	s := small(func(r *result.Record) {
		if r.Treatment != "envoy" || r.Block != 2 {
			return
		}
		for _, at := range []time.Duration{2100, 4300} {
			patch := `{"delay": "250ms"}`
			if at > 3000 {
				patch = `{"delay": null}`
			}
			r.ByHand = append(r.ByHand, result.ByHand{Target: "back-0", At: r.Load.Start.Add(at * time.Millisecond), Patch: patch})
		}
		r.Valid = false
		r.Warnings = append(r.Warnings, result.Warning{Code: "changed-by-hand", Message: "2 changes by hand", Invalidates: true})
	})
	s.Measure = 6
	r := reportOf(t, s)
	var out bytes.Buffer
	must.OK(t, WriteText(&out, r, Options{Width: 200}))
	must.Contain(t, out.String(), "Changed by hand: trial", "2.1 s  back-0 {\"delay\": \"250ms\"}", "4.3 s  back-0 {\"delay\": null}",
		"The same by file, valid in each trial:", "    faults:\n      - {kind: latency, delay: 250ms, at: 2.1s, for: 2.15s, target: {service: back, replica: 0}}\n")
	for _, tr := range r.Treatments {
		if want := map[bool]int{true: 3, false: 4}[tr.ID == "envoy"]; tr.N != want {
			t.Errorf("%s: %d trials count, want %d", tr.ID, tr.N, want)
		}
	}
}

// A run whose only invalid trials were changed by hand begins with that.
func TestUnansweredByHand(t *testing.T) {
	for byHand, want := range map[bool]string{
		true:  "Nothing was compared: services were changed by hand. The figures between the changes are below.",
		false: "Nothing was compared: 12 of 12 trials are invalid: a process died.",
	} {
		r := reportOf(t, small(func(r *result.Record) {
			r.Valid = false
			r.Warnings = append(r.Warnings, result.Warning{Code: "task-died", Message: "a process died", Invalidates: true})
			if byHand {
				r.ByHand = []result.ByHand{{Target: "back-0", At: r.Load.Start.Add(2 * time.Second), Patch: `{"delay": "250ms"}`}}
			}
		}))
		if got := Unanswered(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Each printed fault is one that experiments have, and values of no fault are named.
func TestHandFaults(t *testing.T) {
	at := time.Unix(1000, 0)
	change := func(second float64, target, patch string) result.ByHand {
		return result.ByHand{Target: target, At: at.Add(time.Duration(second * float64(time.Second))), Patch: patch}
	}
	for name, c := range map[string]struct {
		phases []figures.HandPhase
		faults []string
		left   string
	}{
		"two replicas": {[]figures.HandPhase{{From: 2, Changes: []result.ByHand{change(2, "back-0", `{"errors": {"ratio": 0.5, "status": 503}}`), change(2.03, "back-1", `{"errors": {"ratio": 0.5, "status": 503}}`)}}},
			[]string{"  - {kind: errors, ratio: 0.5, status: 503, at: 2s, target: {service: back, replica: 0}}", "  - {kind: errors, ratio: 0.5, status: 503, at: 2.03s, target: {service: back, replica: 1}}"}, ""},
		"one value after another": {[]figures.HandPhase{{From: 1, Changes: []result.ByHand{change(1, "a-b-0", `{"cpu": "100us"}`)}}, {From: 3, Changes: []result.ByHand{change(3, "a-b-0", `{"cpu": "300us"}`)}}, {From: 5, Changes: []result.ByHand{change(5, "a-b-0", `{"cpu": "0s"}`)}}},
			[]string{"  - {kind: cpu-burn, cpu: 100us, at: 1s, for: 1.95s, target: {service: a-b, replica: 0}}", "  - {kind: cpu-burn, cpu: 300us, at: 3s, for: 1.95s, target: {service: a-b, replica: 0}}"}, ""},
		"before the measure phase": {[]figures.HandPhase{{Changes: []result.ByHand{change(0, "web-0", `{"rateLimit": 20}`)}}}, []string{"  - {kind: rate-limit, rate: 20, at: 0s, target: {service: web, replica: 0}}"}, ""},
		"two fields of one":        {[]figures.HandPhase{{From: 1, Changes: []result.ByHand{change(1, "web-0", `{"delay": "1ms", "memory": "1MiB"}`)}}}, []string{"  - {kind: latency, delay: 1ms, at: 1s, target: {service: web, replica: 0}}"}, "memory of web-0"},
		"no fault":                 {[]figures.HandPhase{{From: 1, Changes: []result.ByHand{change(1, "web-0", `{"responseSize": "1KiB", "delay": "uniform(1ms, 2ms)"}`)}}}, nil, "delay of web-0, responseSize of web-0"},
	} {
		faults, left := repeated(c.phases)
		if !slices.Equal(faults, c.faults) || strings.Join(left, ", ") != c.left {
			t.Errorf("%s:\n%s\nleft: %v", name, strings.Join(faults, "\n"), left)
		}
		file := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nphases: {measure: 30s}\nfactors: {replicas: [2]}\napplication: {entry: web, services: [{name: web, calls: [back, a-b]}, {name: back}, {name: a-b}]}\n"
		if faults != nil {
			file += "faults:\n" + strings.Join(faults, "\n") + "\n"
		}
		x, err := experiment.Parse("x.yaml", []byte(file), experiment.Names{})
		if err != nil || len(x.Faults) != len(faults) {
			t.Errorf("%s: %v in\n%s", name, err, file)
		}
	}
}
