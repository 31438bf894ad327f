package capacity

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// server answers a rate, and fails requests above it. Asked above lateAbove the generator is the limit.
func server(rate, lateAbove float64) Load {
	return func(_ context.Context, asked float64, length time.Duration) (Figures, error) {
		if asked == 0 {
			asked = 2 * rate
		}
		n := int64(asked * length.Seconds())
		good := min(1, rate/asked)
		x := Figures{Success: &good, Answered: asked, GeneratorOK: true, Intended: n, Completed: n, TimesMS: map[string]float64{"p50": 1, "p99": 10}}
		if asked > lateAbove {
			x.GeneratorOK, x.TimesMS["p99"] = false, 500
		}
		return x, nil
	}
}

func TestFind(t *testing.T) {
	o := Options{Objective: "errors < 10%, p90 < 50ms", Probes: 20, Length: 2 * time.Second, Seed: 1}
	found, err := Find(context.Background(), o, server(300, 1e9))
	// Up to 10 % of failures are allowed.
	if err != nil {
		t.Errorf("%v: %+v", err, found)
	} else if d := difftest.Wrong(`found.Open != ""`, found.Open != "", "found.Low > 333.3", found.Low > 333.3, "found.High < 333.3", found.High < 333.3, "(found.High-found.Low)/found.Rate > 0.25", (found.High-found.Low)/found.Rate > 0.25, "len(found.Probes) != o.Probes", len(found.Probes) != o.Probes); d != "" {
		t.Errorf("%s: %v: %+v", d, err, found)
	}
	for _, p := range found.Probes {
		if p.Holds != (p.Rate < 300/0.9) {
			t.Errorf("probe %+v", p)
		}
	}
	o.Objective, o.Limit = "p99 < 50ms", 1000
	if found, _ = Find(context.Background(), o, server(1e6, 1e9)); found.Open != OpenAbove {
		t.Errorf("nothing misses: %+v", found)
	}
	if found, _ = Find(context.Background(), o, server(1e6, 0)); found.Rate != 0 || len(found.Probes) != maxUndecided || !strings.Contains(found.Note, "the generator was the limit") {
		t.Errorf("a generator at its limit: %+v", found)
	}
	o.Objective = "p99 < 5ms"
	if found, _ = Find(context.Background(), o, server(1e6, 1e9)); found.Open != OpenBelow {
		t.Errorf("nothing holds: %+v", found)
	}
}

// The rate of a disturbed closed loop is not a limit: the search goes on above it.
func TestDisturbedClosedLoop(t *testing.T) {
	steady := server(300, 1e9)
	found, err := Find(context.Background(), Options{Objective: "errors < 10%, p90 < 50ms", Probes: 20, Length: 2 * time.Second, Seed: 1}, func(ctx context.Context, rate float64, length time.Duration) (Figures, error) {
		if rate == 0 {
			return Figures{Answered: 8}, nil
		}
		return steady(ctx, rate, length)
	})
	if err != nil {
		t.Errorf("%v: %v (%v to %v), open %q, %+v", err, found.Rate, found.Low, found.High, found.Open, found.Probes)
	} else if d := difftest.Wrong(`found.Open != ""`, found.Open != "", "found.Low > 333.3", found.Low > 333.3, "found.High < 333.3", found.High < 333.3, "(found.High-found.Low)/found.Rate > 0.25", (found.High-found.Low)/found.Rate > 0.25); d != "" {
		t.Errorf("%s: %v: %v (%v to %v), open %q, %+v", d, err, found.Rate, found.Low, found.High, found.Open, found.Probes)
	}
}

// A growing backlog misses the objective, whatever the times so far.
func TestBacklogMisses(t *testing.T) {
	bounds := must.Get(ParseBounds("p99 < 50ms"))(t)
	x, _ := server(1e6, 1e9)(context.Background(), 1000, time.Second)
	if p := judge(bounds, 1000, time.Second, &x); !p.Holds {
		t.Errorf("%+v", p)
	}
	x.Completed, x.Growth = 900, 100
	if p := judge(bounds, 1000, time.Second, &x); p.Holds {
		t.Errorf("with a backlog: %+v", p)
	}
}

// A search that ends early has the probes that ended, and returns a probe's error.
func TestFindEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	run := server(300, 1e9)
	found, err := Find(ctx, Options{Objective: "errors < 1%", Limit: 1000, Probes: 20, Length: time.Second}, func(ctx context.Context, rate float64, length time.Duration) (Figures, error) {
		if n++; n == 3 {
			cancel()
		}
		return run(ctx, rate, length)
	})
	if err != nil || len(found.Probes) != 2 {
		t.Errorf("%v: %+v", err, found)
	}
	broken := errors.New("broken")
	if _, err := Find(context.Background(), Options{Objective: "errors < 1%", Probes: 1}, func(context.Context, float64, time.Duration) (Figures, error) { return Figures{}, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// A rate that the generator cannot send does not limit the server. A rate that it refuses does, even if the generator is late.
func TestGeneratorAtItsLimit(t *testing.T) {
	for objective, want := range map[string]struct {
		success, completed float64
		undecided, holds   bool
	}{
		"errors < 1%":              {1, 0.9, true, false},
		"errors < 2%":              {0.95, 1, false, false},
		"p99 < 50ms, errors < 2%":  {0.95, 1, false, false},
		"p99 < 500ms, errors < 1%": {1, 1, false, true},
	} {
		bounds := must.Get(ParseBounds(objective))(t)
		x := Figures{Success: &want.success, Answered: 900, Intended: 1000, Completed: int64(1000 * want.completed), TimesMS: map[string]float64{"p50": 1, "p99": 60}}
		x.Growth = x.Intended - x.Completed
		if p := judge(bounds, 1000, time.Second, &x); (p.Undecided != "") != want.undecided || p.Holds != want.holds {
			t.Errorf("%s: %+v", objective, p)
		}
	}
}

// Two digits of half of the interval are enough, and an open one stays as it is.
func TestRounded(t *testing.T) {
	for _, c := range []struct{ of, want Found }{
		{Found{Rate: 46315, Low: 17629, High: 82453}, Found{Rate: 46000, Low: 18000, High: 82000}},
		{Found{Rate: 151.13, Low: 139.21, High: 159.12}, Found{Rate: 151.1, Low: 139.2, High: 159.1}},
		{Found{Rate: 2554, Low: 2554, High: 2554}, Found{Rate: 2554, Low: 2554, High: 2554}},
		{Found{Rate: 2554.4, Low: 2554.4, High: 9000, Open: OpenAbove}, Found{Rate: 2554.4, Low: 2554.4, High: 9000}},
	} {
		rate, low, high := c.of.Rounded()
		if math.Abs(rate-c.want.Rate)+math.Abs(low-c.want.Low)+math.Abs(high-c.want.High) > 1e-6 {
			t.Errorf("%v (%v to %v), want %+v", rate, low, high, c.want)
		}
	}
}
