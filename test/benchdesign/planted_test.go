package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// The test is the server, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveCommand {
		if err := serve(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func TestPlantedCasesArePlanned(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range plantedCases {
		c := c.draw(r)
		settings, err := c.settings(&bench{blocks: 5, dir: t.TempDir()})
		if errors.Is(err, exec.ErrNotFound) {
			t.Logf("%s: %v", c.words(), err)
			continue
		}
		must.OK(t, err)
		e, err := experiment.Parse("planted.yaml", []byte(plantedText), experiment.Names{Meshes: mesh.Names(), Platforms: []string{"local"}}, settings...)
		if err != nil {
			t.Fatalf("%s: %v", c.words(), err)
		}
		if p, err := plan.Expand(e); err != nil || len(p.Treatments) != 2 {
			t.Errorf("%s: %d treatments, %v", c.words(), len(p.Treatments), err)
		}
	}
}

// The program alone has the planted cost of its requests, by its own clock.
func TestPlantedAlone(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("its CPU needs a machine without other work: make e2e-all")
	}
	defer func(d time.Duration) { aloneTime = d }(aloneTime)
	aloneTime = time.Second
	for _, c := range []planted{
		{levels: []level{{"request", 2e-3}}},
		{levels: []level{{"deferred", 2e-3}, {"delay", 0.3}}, tail: time.Second},
	} {
		a := alone{of: c, dir: t.TempDir()}
		if err := a.measure(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got := a.costs[1][0] - a.costs[0][0]; got < 1900 || got > 2400 {
			t.Errorf("%s: %.0f µs a request, want 2000", c.words(), got)
		}
	}
}

func TestJudge(t *testing.T) {
	interval := func(mean, half float64) *stats.Interval {
		low, high := mean-half, mean+half
		return &stats.Interval{Estimate: mean, Low: &low, High: &high}
	}
	truth := stats.MeanInterval([]float64{199, 201, 200}, confidence)
	for _, c := range []struct {
		name       string
		difference *stats.Interval
		want       string
	}{
		{"held", interval(210, 15), "+210 µs | +195 to +225 | +5.0 % | yes"},
		{"missed", interval(230, 15), "+230 µs | +215 to +245 | +15.0 % | no"},
		{"withheld", nil, "withheld | cpu-bursts |  | "},
	} {
		r := &answer.Report{Comparisons: []compare.Comparison{{Metric: appCPU, Difference: c.difference}}, Warnings: []figures.Warning{{Code: "cpu-bursts", Withholds: true}}}
		if got := strings.Join(judge(r, truth, 100), " | "); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
