package timeline_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/timeline"
	"github.com/tare-mesh/tare/internal/stats"
)

// proxied is a trial with changes of a proxy that is simulated.
type proxied struct {
	delay       time.Duration // until all connections switch
	late        time.Duration // of one connection in addition
	failing     time.Duration // requests fail during this time before the switch
	rate        int
	connections int
	changes     int
	every       time.Duration
	multiple    bool // changes come at exact multiples of every
	workers     int
}

// observe returns the changes of a trial as their answers show them. Connections take turns. An answer takes 0.2 to 0.7 ms, one in
// fifty 3 ms, and shows the state in the middle of that time.
func (p proxied) observe(random *rand.Rand) []result.Change {
	warm := max(time.Second, 4*time.Second*time.Duration(p.connections)/time.Duration(p.rate))
	var changes []result.Change
	for n := range p.changes {
		at := warm + time.Duration((float64(n+1)+0.25*random.Float64())*float64(p.every))
		if p.multiple {
			at = warm + time.Duration(n+1)*p.every
		}
		changes = append(changes, result.Change{Kind: metric.RouteChanged, Version: n + 1, SentSeconds: at.Seconds()})
	}
	end := warm + time.Duration(p.changes+2)*p.every
	var answers []record.Answer
	versions := make([]int, 2) // of most connections, of the late one
	gap := time.Second / time.Duration(p.rate)
	for n := range int(end / gap) {
		at := time.Duration(n) * gap
		took := 200*time.Microsecond + time.Duration(random.Int64N(int64(500*time.Microsecond)))
		if random.IntN(50) == 0 {
			took = 3 * time.Millisecond
		}
		a := record.Answer{Conn: n % p.connections, Sent: int64(at), End: int64(at + took), OK: true, Status: 200}
		of, extra := 0, time.Duration(0)
		if p.late > 0 && a.Conn == p.connections-1 {
			of, extra = 1, p.late
		}
		served := at + took/2
		for versions[of] < len(changes) && served >= seconds(changes[versions[of]].SentSeconds)+p.delay+extra {
			versions[of]++
		}
		a.Version = fmt.Sprintf("%d 127.0.0.2:1", versions[of])
		if v := versions[of]; p.failing > 0 && v < len(changes) && served >= seconds(changes[v].SentSeconds)+p.delay-p.failing {
			a.OK, a.Status, a.Version = false, 503, ""
		}
		answers = append(answers, a)
	}
	timeline.Observe(changes, answers, end, p.workers)
	return changes
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

// medians are the bounds of the first effect and of convergence, ms.
func medians(changes []result.Change) (first, last [2]float64) {
	var firsts, lasts []stats.Bounded
	for _, c := range changes {
		firsts, lasts = append(firsts, c.FirstNew.Bounded()), append(lasts, c.LastOld.Bounded())
	}
	first[0], first[1], _ = stats.EarliestBounds(firsts, 0.5)
	last[0], last[1], _ = stats.LatestBounds(lasts, 0.5)
	return first, last
}

// gate is the outcome of "change.last_old.p50 < limit" in a trial.
func gate(t *testing.T, changes []result.Change, limit float64) expect.Outcome {
	t.Helper()
	condition, err := expect.Parse(fmt.Sprintf("change.last_old.p50 < %vms", limit))
	if err != nil {
		t.Fatal(err)
	}
	return condition.Evaluate(expect.Trial{Changes: (&result.Record{Changes: changes}).ChangesSeen()})
}

// Delays that are drawn at random within 30 % of planted ones are within the bounds, of few and of many connections, and gates 20 %
// beside them are never wrong. -v prints the table.
func TestGatesBesideRandomDelays(t *testing.T) {
	runs := 20
	switch {
	case testing.Short():
		runs = 2
		t.Attr("short", "2 of 100 trials of each kind")
	case os.Getenv("TARE_TEST_ALL") != "":
		runs = 100
	}
	t.Logf("%8s %11s %6s %7s  %10s %10s  %5s %9s", "planted", "connections", "rate", "workers", "width, ms", "contained", "wrong", "undecided")
	for _, planted := range []time.Duration{0, 7 * time.Millisecond, 40 * time.Millisecond, 300 * time.Millisecond, 2500 * time.Millisecond} {
		for _, connections := range []int{1, 4, 32, 64} {
			for _, rate := range []int{200, 1000} {
				for workers := range 2 {
					random := rand.New(rand.NewPCG(uint64(planted), uint64(rate*connections+workers)))
					var widths []float64
					contained, wrong, undecided := 0, 0, 0
					for range runs {
						delay := time.Duration((0.7 + 0.6*random.Float64()) * float64(planted))
						p := proxied{delay: delay, rate: rate, connections: connections, changes: 30, every: max(250*time.Millisecond, 2*delay), workers: workers}
						changes, ms := p.observe(random), float64(delay)/1e6
						first, last := medians(changes)
						if first[0] <= ms+1e-6 && first[1] >= ms-1e-6 && last[0] <= ms+1e-6 && last[1] >= ms-1e-6 {
							contained++
						} else {
							t.Errorf("%+v: first effect %.2f, last old answer %.2f ms, want %v", p, first, last, ms)
						}
						widths = append(widths, last[1]-last[0])
						if planted == 0 {
							continue
						}
						below, above := gate(t, changes, 0.8*ms), gate(t, changes, 1.2*ms)
						if below.OK || !above.OK && !above.Undecided {
							wrong++
							t.Errorf("%+v: gates beside %v ms: %s; %s", p, ms, below.Detail, above.Detail)
						}
						for _, o := range []expect.Outcome{below, above} {
							if o.Undecided {
								undecided++
							}
						}
					}
					slices.Sort(widths)
					t.Logf("%8v %11d %6d %7d  %10.2f %6d/%d  %5d %5d/%d", planted, connections, rate, workers, widths[len(widths)/2], contained, runs, wrong, undecided, 2*runs)
				}
			}
		}
	}
}

// Delays of late connections, failing windows and changes at multiples are within the bounds. With one worker bounds are narrow.
func TestPlantedDelaysAreWithinTheirBounds(t *testing.T) {
	if testing.Short() {
		t.Attr("short", "5 of 100 trials of each kind")
	}
	runs := map[bool]int{true: 5, false: 100}[testing.Short()]
	for _, p := range []proxied{
		{delay: 40 * time.Millisecond, rate: 1000, connections: 32, workers: 1},
		{delay: 33 * time.Millisecond, rate: 1000, connections: 50, multiple: true},
		{delay: 67 * time.Millisecond, failing: 60 * time.Millisecond, rate: 1000, connections: 4, workers: 1},
		{delay: 20 * time.Millisecond, late: 25 * time.Millisecond, rate: 1000, connections: 32, workers: 1},
		{delay: 20 * time.Millisecond, late: 25 * time.Millisecond, rate: 1000, connections: 32},
	} {
		p.changes, p.every = 30, 250*time.Millisecond
		p.check(t, runs)
	}
}

func (p proxied) check(t *testing.T, runs int) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(p.delay), uint64(p.rate*p.connections)))
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	begin, end := ms(p.delay), ms(p.delay+p.late)
	turn := 1000 * float64(p.connections) / float64(p.rate) // between two requests of a connection, ms
	passed, breached := 0, 0
	for range runs {
		changes := p.observe(random)
		first, last := medians(changes)
		// An answer is of an instant between its request and its end: half of 0.7 ms, seldom of 3 ms.
		if first[0] > begin+1e-6 || first[1] < begin-1e-6 {
			t.Errorf("%+v: first effect at least %.2f, at most %.2f ms, want %v", p, first[0], first[1], begin)
		}
		if last[0] > end+1e-6 || last[1] < end-1e-6 {
			t.Errorf("%+v: last old at least %.2f, at most %.2f ms, want %v", p, last[0], last[1], end)
		}
		if width := last[1] - last[0]; p.late == 0 && !p.multiple && (width > turn+4 || p.workers == 1 && width > 1000/float64(p.rate)+4) {
			t.Errorf("%+v: last old at least %.2f, at most %.2f ms is too wide", p, last[0], last[1])
		}
		if width := first[1] - first[0]; p.late == 0 && p.workers == 1 && width > 1000/float64(p.rate)+4 {
			t.Errorf("%+v: first effect at least %.2f, at most %.2f ms is too wide", p, first[0], first[1])
		}
		if end == 0 {
			continue
		}
		if o := gate(t, changes, 0.8*end); o.OK {
			t.Errorf("%+v: a gate of %v passes: %s", p, 0.8*end, o.Detail)
		} else if !o.Undecided {
			breached++
		}
		if o := gate(t, changes, 1.2*end); !o.OK && !o.Undecided {
			t.Errorf("%+v: a gate of %v is breached: %s", p, 1.2*end, o.Detail)
		} else if o.OK {
			passed++
		}
	}
	if p.late == 0 && (end > 4*turn || p.workers == 1 && end > 30) && (passed < runs || breached < runs) {
		t.Errorf("%+v: %d of %d gates above pass, %d below are breached", p, passed, runs, breached)
	}
	t.Logf("%+v: %d of %d pass, %d breached", p, passed, runs, breached)
}
