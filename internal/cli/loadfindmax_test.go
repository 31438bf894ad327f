package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/show/loadpage"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// served is a report of a server that fails all requests beyond a rate.
func served(capacity float64, lateAbove float64) probeFunc {
	return func(_ context.Context, p load.Profile) (load.Report, error) {
		asked := p.Rate
		if asked == 0 {
			asked = 2 * capacity // what the closed loop reaches, with failures
		}
		n := int64(asked * p.Measure.Seconds())
		good := min(1, capacity/asked)
		start := time.Unix(0, 0)
		r := load.Report{Rate: asked, Intended: n, Completed: n, Requests: n, MeasureStart: start, MeasureEnd: start.Add(p.Measure),
			Result: load.Result{Success: &good}, Classes: map[load.Class]int64{load.OK: int64(good * float64(n))}, Generator: load.Generator{OK: true},
			ResponseMS: load.Quantiles{Count: n, P50: 1, P99: 10}}
		if asked > lateAbove {
			r.Generator.OK, r.ResponseMS.P99 = false, 500
		}
		return r, nil
	}
}

func findMax(t *testing.T, run probeFunc, args ...string) (loadpage.Capacity, string, error) {
	t.Helper()
	f, _ := parsedLoadFlags(t, append(args, "http://127.0.0.1/")...)
	p, err := f.build([]string{"http://127.0.0.1/"})
	must.OK(t, err)
	var page, raw bytes.Buffer
	f.output = "text"
	err = capacitySearch{New(console.Console{Out: &page, Err: &raw}, nil)}.findMax(context.Background(), p, f, run)
	f.output = "json"
	var out bytes.Buffer
	if again := (capacitySearch{New(console.Console{Out: &out, Err: &raw}, nil)}).findMax(context.Background(), p, f, run); (again == nil) != (err == nil) {
		t.Fatalf("%v, then %v", err, again)
	}
	var found loadpage.Capacity
	must.OK(t, json.Unmarshal(out.Bytes(), &found))
	return found, page.String(), err
}

func TestFindMax(t *testing.T) {
	// With over 1 % failures, p99 of all requests has no time.
	found, page, err := findMax(t, served(300, 1e9), "--find-max", "errors < 10%, p99 < 50ms")
	if err != nil {
		t.Errorf("%v: %+v", err, found)
	} else if d := difftest.Wrong(`found.Open != ""`, found.Open != "", "found.Low > 303.1", found.Low > 303.1, "found.High < 303", found.High < 303, "(found.High-found.Low)/found.Rate > 0.5", (found.High-found.Low)/found.Rate > 0.5, "len(found.Probes) != probes", len(found.Probes) != probes); d != "" {
		t.Errorf("%s: %v: %+v", d, err, found)
	}
	must.Contain(t, page, "req/s with errors < 10%, p99 < 50ms (95 % interval ", "missed")
	// p99 needs ten requests above it: probes at low rates are longer.
	for _, p := range found.Probes {
		if p.Rate*p.Seconds < 999 && p.Seconds < capacity.MaxProbe.Seconds() {
			t.Errorf("a probe at %v req/s of %v s", p.Rate, p.Seconds)
		}
	}

	found, page, err = findMax(t, served(1e6, 1e9), "--find-max", "p99 < 50ms", "-r", "1000")
	if err != nil || found.Open != capacity.OpenAbove || !strings.HasPrefix(page, "At least ") {
		t.Errorf("a server faster than the limit: %v, %+v\n%s", err, found, page)
	}
	found, page, err = findMax(t, served(300, 1e9), "--find-max", "p99 < 5ms")
	if exitCode(err) != console.Gate || found.Open != capacity.OpenBelow || !strings.HasPrefix(page, "No rate meets p99 < 5ms") {
		t.Errorf("an objective that never holds: %v, %+v\n%s", err, found, page)
	}
	found, page, err = findMax(t, served(1e6, 0), "--find-max", "p99 < 50ms", "-r", "1000")
	if d := difftest.Of("exitCode(err)", exitCode(err), console.Undecided, "len(found.Probes)", len(found.Probes), 3, `strings.Contains(page, "Undecided: no probe shows")`, strings.Contains(page, "Undecided: no probe shows"), true, `strings.Contains(page, "the generator was the limit")`, strings.Contains(page, "the generator was the limit"), true); d != "" {
		t.Errorf("%s: a generator at its limit: %v, %+v\n%s", d, err, found, page)
	}
}

// The page of a search keeps within the columns, whatever was found.
func TestFindMaxColumns(t *testing.T) {
	const objective = "errors < 10%, p50 < 20ms, p90 < 40ms, p99 < 50ms"
	for _, columns := range widths {
		t.Setenv("COLUMNS", fmt.Sprint(columns))
		for name, search := range map[string]struct {
			run  probeFunc
			args []string
		}{
			"found": {served(300, 1e9), []string{objective}}, "above": {served(1e6, 1e9), []string{objective, "-r", "100000"}},
			"below": {served(300, 1e9), []string{"p99 < 5ms, " + objective}}, "undecided": {served(1e6, 0), []string{objective, "-r", "1000"}},
		} {
			_, page, _ := findMax(t, search.run, append([]string{"--find-max"}, search.args...)...)
			for _, line := range tooWide(page, columns) {
				t.Errorf("%s: %d columns of %d: %s", name, ansi.StringWidth(line), columns, line)
			}
			if !strings.Contains(page, "Probes") {
				t.Errorf("%s: no probes in\n%s", name, page)
			}
		}
	}
}

// One seed repeats the search: its rates, its lengths and the seeds of the arrivals. Another seed has other arrivals, and other rates
// after the first bisections.
func TestFindMaxRepeats(t *testing.T) {
	type planned struct {
		rate   float64
		length time.Duration
		seed   uint64
	}
	search := func(seed string) (all []planned) {
		run := served(300, 1e9)
		_, _, err := findMax(t, func(ctx context.Context, p load.Profile) (load.Report, error) {
			all = append(all, planned{p.Rate, p.Measure, p.Seed})
			return run(ctx, p)
		}, "--find-max", "errors < 10%, p99 < 50ms", "--seed", seed)
		must.OK(t, err)
		return all
	}
	const loads = probes + 1 // a closed loop, and the probes
	one, other := search("7"), search("8")
	if len(one) != 2*loads || !slices.Equal(one[:loads], one[loads:]) { // findMax searches twice
		t.Errorf("%v", one)
	}
	seeds := map[uint64]bool{}
	for _, p := range slices.Concat(one, other) {
		seeds[p.seed] = true
	}
	if len(seeds) != 2*loads || one[loads-1].rate == other[loads-1].rate {
		t.Errorf("%d seeds, want %d: %v, then %v", len(seeds), 2*loads, one[:loads], other[:loads])
	}
}

func TestFindMaxExcludes(t *testing.T) {
	for _, args := range [][]string{{"-n", "5"}, {"--ramp", "1s@5"}, {"--gate", "p99 < 1ms"}, {"-o", "csv"}} {
		if _, err := built(t, append(args, "--find-max", "p99 < 1ms")...); err == nil || !strings.Contains(err.Error(), strings.TrimLeft(args[0], "-")) && args[0] != "-n" && args[0] != "-o" {
			t.Errorf("%q: %v", args, err)
		}
	}
	must.Fail(t, must.Err(built(t, "--find-max", "p42 < 1ms")), "--find-max: ")
}
