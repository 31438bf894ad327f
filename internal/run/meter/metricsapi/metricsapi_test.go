package metricsapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// answers has the answers of the API, by path.
type answers map[string]string

func (s answers) Raw(_ context.Context, path string) ([]byte, error) {
	text, ok := s[path]
	if !ok {
		return nil, errors.New("the server is currently unable to handle the request")
	}
	return []byte(text), nil
}

const podsPath = api + "/namespaces/shop/pods"

func pods(at time.Time, window time.Duration, cores float64) string {
	return fmt.Sprintf(`{"kind":"PodMetricsList","items":[{"metadata":{"name":"front-0","namespace":"shop"},"timestamp":%q,"window":%q,
		"containers":[{"name":"app","usage":{"cpu":"%dn","memory":"6964Ki"}},{"name":"proxy","usage":{"cpu":"0","memory":"20Mi"}}]}]}`,
		at.UTC().Format(time.RFC3339), window, int64(cores*1e9))
}

func nodes(at time.Time) string {
	return fmt.Sprintf(`{"kind":"NodeMetricsList","items":[{"metadata":{"name":"n1"},"timestamp":%q,"window":"10.052s","usage":{"cpu":"1197289601n","memory":"5148972Ki"}}]}`,
		at.UTC().Format(time.RFC3339))
}

var tasks = []platform.Task{
	{Task: mesh.Task{ID: "front-0/app", Namespace: "shop", Pod: "front-0", Container: "app"}},
	{Task: mesh.Task{ID: "gone", Namespace: "shop", Pod: "front-1", Container: "app"}},
}

// Rows add up to a counter: the usage between two of its readings equals the usage of the
// windows between them, for any times and number of readings.
func TestRowsAddUp(t *testing.T) {
	s := answers{}
	m := Of(s, []cluster.Node{{Name: "n1", CPUs: 2, Cores: 1.9, Memory: 1 << 30}})
	begin := time.Unix(1_000_000, 0)
	end, used := begin, 0.0
	var first, last meter.Look
	readings := map[time.Time]bool{}
	for i := range 12 {
		window := 10*time.Second + time.Duration(i%3)*7*time.Millisecond
		cores := 0.1 + 0.05*float64(i%4)
		if i > 0 {
			end = end.Add(window)
			used += cores * window.Seconds()
		}
		s[podsPath], s[nodesPath] = pods(end, window, cores), nodes(end)
		for range 4 { // read more often than there are rows
			l, err := m.Read(t.Context(), tasks, meter.Counters)
			if err != nil || l.Gap != nil {
				t.Fatalf("%+v, %v", l, err)
			}
			if first.Tasks == nil {
				first = l
			}
			last = l
			readings[l.Tasks["front-0/app"].At] = true
		}
	}
	a, b := first.Tasks["front-0/app"], last.Tasks["front-0/app"]
	want := used / end.Sub(begin).Seconds()
	if got := float64(b.CPU-a.CPU) / float64(b.At.Sub(a.At)); math.Abs(got/want-1) > 1e-6 || len(readings) != 12 {
		t.Errorf("%v cores, want %v; %d readings, want 12", got, want, len(readings))
	}
	if last.Missing["gone"] == nil || last.Node == nil {
		t.Errorf("%+v %+v", b, last)
	} else if d := difftest.Of("b.RSS", b.RSS, 6964<<10, "last.NodeCPUs", last.NodeCPUs, 2, "last.Nodes[0].AllocatableCPU", last.Nodes[0].AllocatableCPU, 1.9, "last.Node.Memory", last.Node.Memory, 5148972<<10); d != "" {
		t.Errorf("%s: %+v %+v", d, b, last)
	}
	if got := float64(last.Node.Busy-first.Node.Busy) / float64(last.Node.At.Sub(first.Node.At)); math.Abs(got-1.197) > 0.001 {
		t.Errorf("the node used %v cores", got)
	}
}

// A row that was missed is taken to have been like the next.
func TestRowMissed(t *testing.T) {
	c := counter{}
	at := time.Unix(1_000_000, 0)
	c.add(row{at: at, window: 10 * time.Second, cores: 1})
	c.add(row{at: at.Add(30 * time.Second), window: 10 * time.Second, cores: 0.5})
	if c.cpu != 15e9 || c.at.Sub(at) != 30*time.Second+rounding {
		t.Errorf("%+v", c)
	}
}

// An unavailable API leaves a gap, and the counters continue after it.
func TestAway(t *testing.T) {
	s := answers{}
	m := Of(s, nil)
	if l, err := m.Read(t.Context(), tasks, meter.Edge); err != nil || l.Gap == nil {
		t.Errorf("%+v, %v", l, err)
	}
	s[podsPath] = pods(time.Unix(1_000_000, 0), 15*time.Second, 1)
	if l, err := m.Read(t.Context(), tasks, meter.Edge); err != nil {
		t.Errorf("%+v, %v", l, err)
	} else if d := difftest.Wrong("l.Gap != nil", l.Gap != nil, "len(l.Tasks) != 1", len(l.Tasks) != 1, "l.NodeErr == nil", l.NodeErr == nil, "l.Node != nil", l.Node != nil); d != "" {
		t.Errorf("%s: %+v, %v", d, l, err)
	}
	if _, err := m.Probe(t.Context()); err == nil {
		t.Error("an API that does not answer is taken to be refreshed")
	}
	s[nodesPath] = nodes(time.Unix(1_000_000, 0))
	if d, err := m.Probe(t.Context()); err != nil || d != 11*time.Second {
		t.Errorf("%v, %v", d, err)
	}
}

func TestParseRefusesGarbage(t *testing.T) {
	good := pods(time.Unix(1_000_000, 0), 10*time.Second, 1)
	for _, bad := range []string{"", "<html>", strings.Replace(good, "10s", "soon", 1), strings.Replace(good, "10s", "0s", 1), strings.Replace(good, `"6964Ki"`, `"much"`, 1)} {
		if rows, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q is taken: %v", bad, rows)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(pods(time.Unix(1_000_000, 0), 10*time.Second, 1)))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parse(b) })
}
