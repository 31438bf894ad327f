package probe

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestReading(t *testing.T) {
	if runtime.GOOS != "linux" {
		if _, err := (Local{}).Probe(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v", err)
		}
		return
	}
	before := descriptors(t)
	r := must.Get(Local{}.Probe(t.Context()))(t)
	us, ok := r.Microseconds()
	if !ok {
		t.Errorf("%+v: %v µs", r, us)
	} else if d := difftest.Wrong("us < 0.5", us < 0.5, "us > 5000", us > 5000, "r.Work != Work", r.Work != Work, "r.Took <= 0", r.Took <= 0, "r.Took > 5*time.Second", r.Took > 5*time.Second); d != "" {
		t.Errorf("%s: %+v: %v µs", d, r, us)
	}
	seen := map[int]bool{}
	for _, c := range r.CPUs {
		// A thread cannot have more CPU time than there was time.
		if d := difftest.Wrong("seen[c.CPU]", seen[c.CPU], "c.Pieces < batch", c.Pieces < batch, "c.Pieces > pieces", c.Pieces > pieces, "time.Duration(c.NS) > r.Took", time.Duration(c.NS) > r.Took); d != "" {
			t.Errorf("%s: processor %+v of %+v", d, c, r)
		}
		seen[c.CPU] = true
	}
	if len(r.CPUs) == 0 || len(r.CPUs) > mostProcessors {
		t.Errorf("%d processors", len(r.CPUs))
	}
	// One processor asked for is one probed, and all others are usable afterwards.
	one, err := Local{CPUs: []int{r.CPUs[0].CPU}}.Probe(t.Context())
	if err != nil || len(one.CPUs) != 1 || one.CPUs[0].CPU != r.CPUs[0].CPU {
		t.Errorf("%+v, %v", one, err)
	}
	if after, err := Allowed(); err != nil || len(after) < len(r.CPUs) {
		t.Errorf("after it this process may use processors %v, %v", after, err)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	// A reading survives JSON.
	var again Reading
	b, err := json.Marshal(r)
	if err = errors.Join(err, json.Unmarshal(b, &again)); err != nil || !again.At.Equal(r.At) || !reflect.DeepEqual(again.CPUs, r.CPUs) {
		t.Errorf("%s: %+v, %v", b, again, err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(all)
}

// More work takes more time: the reading is of the work, not of the clock.
func TestReadingIsOfTheWork(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no probe on " + runtime.GOOS)
	}
	var ratios []float64
	for range 5 {
		r := must.Get(Local{}.Probe(t.Context()))(t)
		a, _ := r.Microseconds()
		for i := range r.CPUs {
			r.CPUs[i].Pieces /= 2
		}
		b, ok := r.Microseconds()
		if !ok || math.Abs(b/a-2) > 0.01 {
			t.Errorf("%v µs a piece, %v with half as many", a, b)
		}
		ratios = append(ratios, a)
	}
	// CPU time, not wall clock: other load delays it and hardly makes it more.
	if slices.Max(ratios) > 4*slices.Min(ratios) {
		t.Errorf("five readings in a row: %v µs", ratios)
	}
}

func TestProbeThatCannotBe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no probe on " + runtime.GOOS)
	}
	if r, err := (Local{CPUs: []int{1000}}).Probe(t.Context()); err == nil {
		t.Errorf("processor 1000: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Local{}).Probe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
	for _, r := range []Reading{{}, {CPUs: []Processor{{NS: 1}}}, {CPUs: []Processor{{Pieces: 5}}}, {CPUs: []Processor{{Pieces: 1, NS: 1}, {Pieces: 1, NS: -4}}}} {
		if v, ok := r.Microseconds(); ok {
			t.Errorf("%+v gives %v", r, v)
		}
	}
}

func TestSpread(t *testing.T) {
	all := make([]int, 64)
	for i := range all {
		all[i] = i
	}
	if got := spread(all, 8); !reflect.DeepEqual(got, []int{0, 8, 16, 24, 32, 40, 48, 56}) {
		t.Error(got)
	}
	if got := spread([]int{3, 5}, 8); !reflect.DeepEqual(got, []int{3, 5}) {
		t.Error(got)
	}
}
