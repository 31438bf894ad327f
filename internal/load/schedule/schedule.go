// Package schedule computes when requests are due, and which worker and target gets them.
package schedule

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/load"
)

// rateCurve is the rate over time. reach returns the time (ns from t0) at which the
// cumulated rate, the expected number of requests so far, reaches x. x does not
// decrease from call to call. Infinite: never. cumulated is its inverse: the number at
// t seconds.
type rateCurve interface {
	reach(x float64) float64
	cumulated(t float64) float64
}

// curve is the rate of p over the time in which it sends.
func curve(p *load.Profile) rateCurve {
	if p.Slices != nil {
		return newSliced(p)
	}
	return continuous(p)
}

// continuous is the rate of p without slices.
func continuous(p *load.Profile) rateCurve {
	if len(p.Segments) > 0 {
		return newSegmented(p.Segments, p.Repeat)
	}
	return flat(p.Rate)
}

// flat is a constant rate. Every instant is computed from its index: adding up
// a rounded gap would drift.
type flat float64

func (rate flat) reach(x float64) float64 { return x * 1e9 / float64(rate) }

func (rate flat) cumulated(t float64) float64 { return float64(rate) * t }

// segmented goes from segment to segment. After the last one, the repeating ones begin again.
// If there are none, its end rate stays.
type segmented struct {
	segments []load.Segment
	repeat   []load.Segment
	before   float64       // requests of the segments that are over
	start    time.Duration // of the current one

	all  []load.Segment
	ends []float64 // of all segments, s
	sums []float64 // of requests until then
}

func newSegmented(all []load.Segment, repeat int) *segmented {
	s := &segmented{segments: all, repeat: all[len(all)-repeat:], all: all}
	var end, sum float64
	for _, g := range all {
		d := g.For.Seconds()
		end, sum = end+d, sum+(g.From+g.To)/2*d
		s.ends, s.sums = append(s.ends, end), append(s.sums, sum)
	}
	return s
}

func (s *segmented) reach(x float64) float64 {
	for len(s.segments) > 0 {
		g := s.segments[0]
		d := g.For.Seconds()
		if whole := (g.From + g.To) / 2 * d; x-s.before >= whole {
			if len(s.segments) == 1 && len(s.repeat) == 0 {
				return float64(s.start+g.For) + (x-s.before-whole)*1e9/g.To
			}
			s.before += whole
			s.start += g.For
			if s.segments = s.segments[1:]; len(s.segments) == 0 {
				s.segments = s.repeat
			}
			continue
		}
		return float64(s.start) + solveRamp(g.From, (g.To-g.From)/d, x-s.before)*1e9
	}
	return math.Inf(1)
}

func (s *segmented) cumulated(t float64) float64 {
	last := len(s.all) - 1
	if i, _ := slices.BinarySearch(s.ends, t); i <= last {
		begin, before := 0.0, 0.0
		if i > 0 {
			begin, before = s.ends[i-1], s.sums[i-1]
		}
		in, _ := through(s.all[i:i+1], t-begin)
		return before + in
	}
	sum, rate, rest := s.sums[last], s.all[last].To, t-s.ends[last]
	cycle := length(s.repeat)
	if cycle == 0 {
		return sum + rate*rest
	}
	all, _ := through(s.repeat, cycle)
	part, _ := through(s.repeat, math.Mod(rest, cycle))
	return sum + math.Floor(rest/cycle)*all + part
}

// through is the number of requests of segments until t seconds after their start, and the
// last rate.
func through(segments []load.Segment, t float64) (sum, rate float64) {
	for _, g := range segments {
		d := g.For.Seconds()
		in := min(max(t, 0), d)
		sum += g.From*in + (g.To-g.From)/d*in*in/2
		t, rate = t-d, g.To
	}
	return sum, rate
}

func length(segments []load.Segment) (sum float64) {
	return lists.Sum(segments, func(g load.Segment) float64 { return g.For.Seconds() })
}

// solveRamp returns t ≥ 0 with rate·t + slope·t²/2 = x, in the form of the
// quadratic's root that loses no digits when slope is small.
func solveRamp(rate, slope, x float64) float64 {
	root := math.Sqrt(max(0, rate*rate+2*slope*x))
	if rate+root == 0 {
		return 0
	}
	return 2 * x / (rate + root)
}

// Schedule yields the intended starts of one worker's requests, in ns from t0, never
// decreasing. It yields [load.Never] at the end. The load's schedule is a pure
// function of the profile: worker i of n takes its requests i, i+n, i+2n, …. The
// number of workers and processes therefore does not change the send times: 7
// requests/s over 3 workers are 7.
type Schedule interface {
	Next() int64
}

// New builds the share of worker i of n.
func New(p *load.Profile, i, n int) Schedule {
	c := curve(p)
	a := &arrivals{curve: c, position: positions(p, c), step: n, round: math.Floor}
	if p.Arrivals == load.Constant {
		a.round = math.Round // a position computed as a whole number of ns may be a little less
	}
	for range i {
		a.position()
	}
	return a
}

// arrivals applies a random process to a rate that may change. number yields
// positions on the axis of requests, on average one request apart. law returns the
// time at which the rate reaches a position. This is time-rescaling: a process of
// rate 1, mapped through the inverse of the cumulated rate, has that rate.
type arrivals struct {
	position func() float64
	curve    rateCurve
	step     int
	round    func(float64) float64 // to ns, down for random positions, so that they stay in their stretch
}

func (a *arrivals) Next() int64 {
	at := a.curve.reach(a.position())
	for range a.step - 1 {
		a.position() // another worker's, and a draw costs some nanoseconds
	}
	if !(at < load.Never) { // +Inf, and NaN where nothing is left over at rate 0
		return load.Never
	}
	return int64(a.round(at))
}

// positions returns the positions of successive requests on the axis of requests.
func positions(p *load.Profile, c rateCurve) func() float64 {
	rng := rand.New(rand.NewPCG(p.Seed, 0x7461_7265))
	k := -1.0
	switch p.Arrivals {
	case load.Constant:
		return func() float64 { k++; return k }
	case load.Uniform:
		return func() float64 { k++; return k + rng.Float64() }
	}
	return (&conditioned{rng: rng, edges: edges(p, c)}).next
}

// conditioned is a Poisson process of rate 1 whose number of requests in each stretch
// is fixed. Given their number, the requests of a Poisson process are independent and
// uniform (Kingman, Poisson Processes, 1993, section 2.4). Two runs of one load
// then have the same number of requests, and their gaps are exponential as before.
//
// The uniform positions are drawn in ascending order without storing them. The least
// of n uniform values in (0,1) is 1 - U^(1/n), and the others are uniform above it
// (Bentley, Saxe, Generating Sorted Lists of Random Numbers, ACM TOMS 6, 1980).
type conditioned struct {
	rng   *rand.Rand
	edges []float64 // ends of the stretches to come
	at    float64
	left  float64 // requests left in the current stretch
}

func (c *conditioned) next() float64 {
	for c.left == 0 && len(c.edges) > 0 {
		// As many as requests of constant arrivals, whose positions are whole numbers.
		if c.left = whole(c.edges[0]) - whole(c.at); c.left == 0 {
			c.at, c.edges = c.edges[0], c.edges[1:]
		}
	}
	if len(c.edges) == 0 {
		c.at += c.rng.ExpFloat64()
		return c.at
	}
	// U^(1/n) = exp(-E/n) with E exponential.
	c.at -= (c.edges[0] - c.at) * math.Expm1(-c.rng.ExpFloat64()/c.left)
	at := c.at
	if c.left--; c.left == 0 {
		c.at, c.edges = c.edges[0], c.edges[1:]
	}
	return at
}

// rounding bounds the rounding error of a position.
const rounding = 1e-6

// whole counts the whole numbers below a position.
func whole(position float64) float64 { return math.Ceil(position - rounding) }

// edges are the positions of the ends of warm-up, measure window and tail. A load of a
// number of requests has its measure window at the number. A load with slices has the ends of
// its own slices.
func edges(p *load.Profile, c rateCurve) []float64 {
	if s, ok := c.(*sliced); ok {
		return s.edges()
	}
	if p.Measure <= 0 {
		return nil // no load of its own
	}
	begin := c.cumulated(p.Warmup.Seconds())
	if p.Requests > 0 {
		return []float64{begin, begin + float64(p.Requests)}
	}
	end := p.Warmup + p.Measure
	return []float64{begin, c.cumulated(end.Seconds()), c.cumulated((end + p.Tail).Seconds())}
}

// Share is part i of n of a whole that is divided evenly. The first parts are the larger ones.
func Share(whole, n, i int) int {
	s := whole / n
	if i < whole%n {
		s++
	}
	return s
}

// Rotation returns the order in which targets are visited, see [byWeight].
func Rotation(p *load.Profile) []int { return byWeight(Weights(p)) }

// Weights returns the weight of each target, 1 for each if the profile has none.
func Weights(p *load.Profile) []int {
	if len(p.Weights) > 0 {
		return p.Weights
	}
	return slices.Repeat([]int{1}, len(p.Targets))
}

// Assign divides n connections by weights: one each, the rest by weight.
func Assign(weights []int, n int) []int {
	order := byWeight(weights)
	assigned := make([]int, 0, n)
	for i := range min(n, len(weights)) {
		assigned = append(assigned, i)
	}
	for i := len(weights); i < n; i++ {
		assigned = append(assigned, order[i%len(order)])
	}
	return assigned
}

// byWeight is smooth weighted round robin: each of several gains its weight every step, and
// the one with the highest value is visited and loses the sum of the weights. Targets of one weight
// take turns, so that a step compares one of each weight.
func byWeight(weights []int) []int {
	sum := lists.Sum(weights, func(w int) int { return w })
	if sum == len(weights) { // all are 1
		order := make([]int, len(weights))
		for i := range order {
			order[i] = i
		}
		return order
	}
	type group struct {
		weight, credit int   // of the member that is next
		members        []int // in turn
		next           int
	}
	var groups []*group
	of := map[int]*group{}
	for i, w := range weights {
		if of[w] == nil {
			of[w] = &group{weight: w}
			groups = append(groups, of[w])
		}
		of[w].members = append(of[w].members, i)
	}
	order := make([]int, sum)
	for turn := range order {
		var best *group
		for _, g := range groups {
			g.credit += g.weight
			if best == nil || g.credit > best.credit || g.credit == best.credit && g.members[g.next] < best.members[best.next] {
				best = g
			}
		}
		order[turn] = best.members[best.next]
		if best.next++; best.next == len(best.members) {
			best.next = 0
			best.credit -= sum // all of them have lost it
		}
	}
	return order
}

// sliced is the rate over the time in which one load sends: its own slices, without their guards.
// Positions on its axis count its own requests. A block therefore has rate × time of them,
// however few fall into a slice, and all owners of a row have the same number in it.
type sliced struct {
	rateCurve
	left []sending
}

// sending is one own slice without its guard.
type sending struct {
	begin, end float64 // ns from t0
	due        float64 // cumulated rate at begin
	from, to   float64 // positions of own requests
}

func newSliced(p *load.Profile) *sliced {
	s := &sliced{rateCurve: continuous(p)}
	t, at := p.Slices, 0.0
	for i, owner := range t.Owners {
		begin := time.Duration(i) * t.Length
		if n := len(s.left); begin == p.Warmup {
			// The measure window begins with a whole position, so that its number is exact too.
			if at = whole(at); n > 0 {
				s.left[n-1].to = at
			}
		}
		if owner == t.Own {
			end := begin + t.Length - t.Guard
			due := s.cumulated(begin.Seconds())
			// Rounded, since owners of one row have sums that differ in their last digits.
			to := math.Round(1e10*(at+s.cumulated(end.Seconds())-due)) / 1e10
			s.left = append(s.left, sending{begin: float64(begin), end: float64(end), due: due, from: at, to: to})
			at = to
		}
	}
	return s
}

func (s *sliced) reach(x float64) float64 {
	for len(s.left) > 0 && x >= s.left[0].to-rounding {
		s.left = s.left[1:]
	}
	if len(s.left) == 0 {
		return math.Inf(1)
	}
	in := s.left[0]
	return min(max(s.rateCurve.reach(in.due+x-in.from), in.begin), in.end-1)
}

// edges are the positions of the ends of slices.
func (s *sliced) edges() (edges []float64) {
	return lists.Map(s.left, func(in sending) float64 { return in.to })
}
