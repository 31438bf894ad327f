package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/test/must"
)

// Every application that is drawn is a valid topology, and its sidecars have rates that the curve has.
func TestApplicationsAreWithinTheCurve(t *testing.T) {
	p := program{out: t.TempDir(), most: 12, seed: 3}
	shapes := map[string]bool{}
	for i := range 100 {
		a := must.Get(p.draw(i))(t)
		shapes[a.shape] = true
		g := predict.Graph{Topology: must.Get(app.Load(filepath.Clean(a.file)))(t)}
		flow := must.Get(g.Spread(map[string]float64{g.Entry: float64(a.rate)}))(t)
		for _, s := range g.Services {
			var rate float64
			for _, c := range flow.Calls {
				if c.From == s.Name || c.To == s.Name {
					rate += c.Rate
				}
			}
			if rate < lowest || rate > highest {
				t.Errorf("%s: %v requests/s through the sidecar of %s, want %d to %d", a.file, rate, s.Name, lowest, highest)
			}
		}
	}
	if len(shapes) < 8 {
		t.Errorf("%d shapes: %v", len(shapes), shapes)
	}
}

// The page of the results has the place where they go, and a missed forecast is marked.
func TestResultsGoIntoTheirPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "forecast.md")
	must.OK(t, os.WriteFile(page, must.Get(os.ReadFile("../../docs/lab/forecast.md"))(t), 0o644))
	must.OK(t, fill(page, "new\n"))
	text := string(must.Get(os.ReadFile(page))(t))
	if !strings.HasPrefix(text, "# Forecasts") || !strings.HasSuffix(text, marker+"\nnew\n") {
		t.Errorf("the page ends with %q", text[max(0, len(text)-100):])
	}
	a := application{cpu: 0.2, memory: math.NaN(), p50: 3, without: 1}
	a.expected.CPU = predict.Amount{Estimate: 0.1, Low: 0.05, High: 0.15}
	for i, want := range []string{" | 200 **missed** | 100, 50 to 150", " | unknown | 0, 0 to 0", " | 2 | refused"} {
		if got := quantities[i].cells(a); got != want {
			t.Errorf("%s: %q, want %q", quantities[i].name, got, want)
		}
	}
	// Of one case, the exact interval is 0 to 97.5 %.
	if got := quantities[0].summary([]application{a}); !strings.HasPrefix(got, "| CPU | 0 | 1 | 0 to 98 % | 50 % | 2.000 |") {
		t.Errorf("summary %q", got)
	}
}

// A refused forecast has the reason that the program prints.
func TestForecastsThatFailHaveTheReason(t *testing.T) {
	p := program{tare: filepath.Join(t.TempDir(), "tare")}
	must.OK(t, os.WriteFile(p.tare, []byte("#!/bin/sh\necho not this\necho tare: 3 requests/s are outside >&2\nexit 1\n"), 0o755))
	a := application{dir: filepath.Join(t.TempDir(), "drawn"), file: "drawn.yaml", rate: 30}
	must.Fail(t, p.forecast(&a, "curve", "callers"), "tare forecast --graph drawn.yaml --rate 30 --format json curve callers: exit status 1: tare: 3 requests/s are outside")
}
