package timeline_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/timeline"
	"github.com/tare-mesh/tare/internal/stats"
)

// planted is a trial whose changes take effect at one instant each, for all connections. The second kind undoes the first.
type planted struct {
	kinds       [2]string
	delay       time.Duration
	slow        time.Duration // in place of delay, of one in fifty changes
	rate        int
	connections int
	changes     int
	every       time.Duration
}

// answer serves a request by the state after a number of changes. Failing: a process that restarts is down.
func (p planted) answer(a *record.Answer, state int, failing bool, random *rand.Rand) {
	a.OK, a.Status = true, http.StatusOK
	version, replicas := 0, []string{"127.0.0.2:1", "127.0.0.4:1", "127.0.0.3:1"}
	kind, _ := metric.ChangeKindOf(p.kinds[0])
	switch kind.Shown {
	case metric.Endpoint:
		replicas = replicas[:3-state%2]
	case metric.Denial:
		if state%2 == 1 {
			a.OK, a.Status = false, http.StatusForbidden
		}
	case metric.Outage:
		if failing {
			a.OK, a.Status = false, http.StatusServiceUnavailable
		}
	case metric.Replacement:
		replicas = []string{fmt.Sprint("pod-", state)}
	default:
		version = state
	}
	a.Version = fmt.Sprintf("%d %s", version, replicas[random.IntN(len(replicas))])
}

// observe returns the changes of a trial as their answers show them.
func (p planted) observe(random *rand.Rand) (changes []result.Change) {
	warm := max(time.Second, 4*time.Second*time.Duration(p.connections)/time.Duration(p.rate))
	var effects []time.Duration
	for n := range p.changes {
		at := warm + time.Duration((float64(n+1)+0.25*random.Float64())*float64(p.every))
		effect := at + p.delay
		if p.slow > 0 && n/2%50 == 7 { // of both kinds
			effect = at + p.slow
		}
		effects = append(effects, effect)
		changes = append(changes, result.Change{Kind: p.kinds[n%2], Version: n + 1, Endpoint: "127.0.0.3:1", Task: "echo-0/sidecar", SentSeconds: at.Seconds()})
	}
	end := warm + time.Duration(p.changes+2)*p.every
	gap := time.Second / time.Duration(p.rate)
	var answers []record.Answer
	state := 0
	for n := range int(end / gap) {
		at := time.Duration(n) * gap
		took := 200*time.Microsecond + time.Duration(random.Int64N(int64(500*time.Microsecond)))
		if random.IntN(50) == 0 {
			took = 3 * time.Millisecond
		}
		a := record.Answer{Conn: n % p.connections, Sent: int64(at), End: int64(at + took)}
		served, now := at+took/2, state
		for now < len(effects) && served >= effects[now] {
			now++
		}
		for state < len(effects) && at >= effects[state] {
			state++
		}
		failing := now < len(effects) && served >= seconds(changes[now].SentSeconds)
		p.answer(&a, now, failing, random)
		answers = append(answers, a)
	}
	timeline.Observe(changes, answers, end, 0)
	return changes
}

// timesOf are the first effects and the last old answers of a kind.
func timesOf(changes []result.Change, kind string) (first, last []stats.Bounded) {
	for _, c := range changes {
		if c.Kind == kind && c.FirstNew != nil {
			first = append(first, c.FirstNew.Bounded())
		}
		if c.Kind == kind && c.LastOld != nil {
			last = append(last, c.LastOld.Bounded())
		}
	}
	return first, last
}

// Endpoints, policies, restarts, replaced pods and added routes: medians and 99 % quantiles are within their bounds, at delays that
// are drawn at random, and gates 20 % beside them are never wrong. -v prints the table.
func TestPlantedChangesOfEachKind(t *testing.T) {
	runs := map[bool]int{true: 1, false: 100}[testing.Short()]
	if testing.Short() {
		t.Attr("short", "1 of 100 trials of each kind")
	}
	t.Logf("%-18s %8s %4s  %12s %10s  %5s %9s", "kind", "planted", "", "widths, ms", "contained", "wrong", "undecided")
	for _, kinds := range [][2]string{
		{metric.EndpointRemoved, metric.EndpointAdded}, {metric.PolicyDenied, metric.PolicyAllowed}, {metric.RouteAdded, metric.WeightShifted},
		{metric.ProxyRestarted, metric.ProxyRestarted}, {metric.VersionChanged, metric.VersionChanged},
	} {
		for _, c := range []struct {
			center time.Duration
			q      float64
			name   string
			rate   int
		}{
			{7 * time.Millisecond, 0.5, "p50", 1000}, {40 * time.Millisecond, 0.5, "p50", 1000}, {300 * time.Millisecond, 0.5, "p50", 200}, {40 * time.Millisecond, 0.99, "p99", 1000},
		} {
			random := rand.New(rand.NewPCG(uint64(c.center), uint64(len(kinds[0]))))
			count := map[string]*tally{kinds[0]: {}, kinds[1]: {}}
			rounds := runs
			switch described, _ := metric.ChangeKindOf(kinds[0]); {
			case c.q > 0.5 && (described.Shown == metric.Replacement || testing.Short() && described.Shown != metric.Denial):
				continue // of a thousand changes each
			case c.q > 0.5:
				rounds = max(1, runs/25)
			}
			for range rounds {
				delay := time.Duration((0.7 + 0.6*random.Float64()) * float64(c.center))
				p := planted{kinds: kinds, delay: delay, rate: c.rate, connections: 8, changes: 60, every: max(200*time.Millisecond, 2*delay)}
				if truth := delay; c.q > 0.5 {
					p.delay, p.slow, p.changes, p.every = delay/3, truth, 2000, 2*truth
				}
				changes := p.observe(random)
				for kind, n := range count {
					n.add(t, changes, kind, c.q, c.name, float64(delay)/1e6)
				}
			}
			for _, kind := range kinds {
				n := count[kind]
				t.Logf("%-18s %8v %4s  %5.1f %6.1f %6d/%d  %5d %5d/%d", kind, c.center, c.name, n.firstWidth/float64(rounds), n.lastWidth/float64(rounds), n.contained, n.of, n.wrong, n.undecided, n.gates)
				if kinds[0] == kinds[1] {
					break
				}
			}
		}
	}
}

// tally counts the trials of a kind whose bounds contain the truth, and the gates.
type tally struct {
	contained, of, wrong, undecided, gates int
	firstWidth, lastWidth                  float64 // sums
}

// add judges one trial, whose changes of a kind take ms.
func (n *tally) add(t *testing.T, changes []result.Change, kind string, q float64, name string, ms float64) {
	t.Helper()
	first, last := timesOf(changes, kind)
	for _, side := range []struct {
		what, subject string
		times         []stats.Bounded
		bounds        func([]stats.Bounded, float64) (float64, float64, bool)
		width         *float64
	}{{"first effect", "first_new", first, stats.EarliestBounds, &n.firstWidth}, {"last old answer", "last_old", last, stats.LatestBounds, &n.lastWidth}} {
		if len(side.times) == 0 {
			continue
		}
		low, high, known := side.bounds(side.times, q)
		*side.width += high - low
		if n.of++; known && low <= ms+1e-6 && high >= ms-1e-6 {
			n.contained++
		} else {
			t.Errorf("%s: %s %s at least %.2f, at most %.2f ms (%v), want %.2f", kind, name, side.what, low, high, known, ms)
		}
		for _, factor := range []float64{0.8, 1.2} {
			text := fmt.Sprintf("change.%s.%s(%s) < %vms", side.subject, name, kind, factor*ms)
			condition, err := expect.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			o := condition.Evaluate(expect.Trial{Changes: (&result.Record{Changes: changes}).ChangesSeen()})
			switch n.gates++; {
			case o.Undecided:
				n.undecided++
			case o.OK != (factor > 1):
				n.wrong++
				t.Errorf("%s, where %.2f is planted: %s", text, ms, o.Detail)
			}
		}
	}
	if kind != metric.EndpointRemoved && len(first) == 0 || kind != metric.EndpointAdded && len(last) == 0 {
		t.Errorf("%s: no times", kind)
	}
}
