package page

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
)

// figureData has the data of figures beside the report. Each part has a bound, so that the page of a large run
// stays small: the first blocks are drawn.
type figureData struct {
	Slices     []sliced    `json:"slices,omitempty"`
	Heat       []heat      `json:"heat,omitempty"`
	Looks      []looks     `json:"looks,omitempty"`
	References []reference `json:"references,omitempty"`
	Searches   []searched  `json:"searches,omitempty"`
	Memory     []memory    `json:"memory,omitempty"`
	Changes    []changed   `json:"changesMade,omitempty"`
}

// sliced is the CPU per request in the slices of one trial.
type sliced struct {
	Block     int        `json:"block"`
	Treatment string     `json:"treatment"`
	US        []*float64 `json:"us"` // null without an answer
}

func slicesOf(source Source) (all []sliced) {
	records, err := source.Dir.Records()
	if err != nil {
		return nil // the report has the figures of whole trials
	}
	points, block := 0, 0
	for i := range records {
		t := &records[i]
		parts, err := figures.ReadSliceCosts(t, source.Dir.TrialFile(t.ID, result.SlicesFile))
		costs := parts["total"]
		if err != nil || len(costs) == 0 || t.Block > source.Report.Count.Blocks {
			continue
		}
		if t.Block != block && points+len(costs)*len(source.Report.Treatments) > mostPoints && points > 0 {
			break
		}
		block = t.Block
		s := sliced{Block: t.Block, Treatment: t.Treatment}
		for _, us := range costs {
			if math.IsNaN(us) {
				s.US = append(s.US, nil)
				continue
			}
			s.US = append(s.US, new(math.Round(us*10)/10))
		}
		all, points = append(all, s), points+len(costs)
	}
	return all
}

// heat is the number of answers of one trial by second and response time.
type heat struct {
	Trial     string   `json:"trial"`
	Treatment string   `json:"treatment"`
	From      float64  `json:"from"` // ms, the lower edge of bin 0
	PerDecade int      `json:"perDecade"`
	Cells     [][3]int `json:"cells"` // second, bin, answers
}

const (
	heatFrom  = 0.001 // ms
	perDecade = 8
)

// heatOf reads the logs of whole blocks, the first ones first. A trial without a log is left out.
func heatOf(d *result.Dir) (all []heat) {
	cells, block := 0, 0
	for _, t := range d.Plan().Trials {
		if t.Block != block && cells > mostPoints/2 {
			break
		}
		block = t.Block
		log, err := hdrlog.Open(d.TrialFile(t.ID, result.LatencyFile))
		if err != nil {
			continue
		}
		h := heat{Trial: t.ID, Treatment: t.Treatment, From: heatFrom, PerDecade: perDecade}
		counts := map[[2]int]int{}
		err = hdrlog.ReadSeconds(log, func(second int, tag string, times *hdrhistogram.PackedHistogram) error {
			if tag != load.TagResponse+string(load.OK) {
				return nil
			}
			for _, bar := range hdrlog.Dense(times).Distribution() {
				if bar.Count > 0 {
					ms := math.Max(heatFrom, float64(bar.From+bar.To)/2/1e6)
					counts[[2]int{second, int(math.Log10(ms/heatFrom) * perDecade)}] += int(bar.Count)
				}
			}
			return nil
		})
		_ = log.Close()
		if err != nil || len(counts) == 0 || len(counts) > mostPoints {
			continue
		}
		for at, n := range counts {
			h.Cells = append(h.Cells, [3]int{at[0], at[1], n})
		}
		slices.SortFunc(h.Cells, func(a, b [3]int) int { return slices.Compare(a[:], b[:]) })
		all, cells = append(all, h), cells+len(h.Cells)
	}
	return all
}

// looks are those at one gate, block after block.
type looks struct {
	Gate      string  `json:"gate"`
	Treatment string  `json:"treatment"`
	Unit      string  `json:"unit"`
	Upper     bool    `json:"upper"`
	Limit     float64 `json:"limit"`
	Detect    float64 `json:"detect,omitempty"`
	Looks     []look  `json:"looks"`
}

type look struct {
	Pairs    int      `json:"pairs"`
	Estimate float64  `json:"estimate"`
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
	Outcome  string   `json:"outcome"`
}

// mostLooks bounds the reports that the looks of a long run need.
const mostLooks = 60

// looksOf repeats the report on the blocks up to each look, as the run made it.
func looksOf(s Source) []looks {
	if len(s.Report.Decisions) == 0 {
		return nil
	}
	measured, err := compare.NewLooks(s.Dir, s.Options)
	if err != nil {
		return nil // the report has the outcome
	}
	all := make([]looks, len(s.Report.Decisions))
	for i, d := range s.Report.Decisions {
		all[i] = looks{Gate: report.GateWords(d), Treatment: d.Treatment, Unit: d.Unit, Upper: d.Upper, Limit: d.Limit, Detect: d.Detect, Looks: []look{}}
	}
	blocks := s.Report.Count.Blocks
	step := (blocks + mostLooks - 1) / mostLooks
	for block := 1; block <= blocks; block++ {
		if block%max(1, step) != 0 && block != blocks {
			continue
		}
		decisions, err := measured.At(block, s.Report.Decisions[0].Last && block == blocks)
		if err != nil || len(decisions) != len(all) {
			return nil // the report has the outcome
		}
		for i, d := range decisions {
			if d.Change != nil {
				all[i].Looks = append(all[i].Looks, look{d.Pairs, d.Change.Estimate, d.Change.Low, d.Change.High, string(d.Outcome)})
			}
		}
	}
	return all
}

// reference is a published cost of one proxy.
type reference struct {
	Who        string  `json:"who"`
	What       string  `json:"what"`
	Rate       float64 `json:"rate"`
	Millicores float64 `json:"millicores"`
	Conditions string  `json:"conditions"`
}

// referencesOf are for the figure of cost against rate.
func referencesOf(r *answer.Report) (all []reference) {
	if len(r.Lines) == 0 {
		return nil
	}
	published, err := report.References()
	if err != nil {
		return nil // it is part of the program, and has a test
	}
	for _, p := range published {
		if p.Per == "proxy" && p.Cores > 0 {
			all = append(all, reference{p.Who, p.What, 1000, p.Cores * 1000, p.Conditions})
		}
	}
	return all
}

// mostPoints bounds the points of all timelines of a page. A page of 100 trials stays below 2 MB.
const mostPoints = 6000

// Expectations of a trial, and spans of one of them, that a timeline has at most.
const (
	mostExpectations = 100
	mostSpans        = 100
)

// timeline has the events of one trial, in seconds from the start of the load.
type timeline struct {
	Trial     string   `json:"trial"`
	Treatment string   `json:"treatment"`
	Seconds   []second `json:"seconds"`
	Samples   []sample `json:"samples"`
	Phases    []span   `json:"phases"`
	Faults    []fault  `json:"faults,omitempty"`
	// Expectations are the conditions of the trial with the times that they are about.
	Expectations []expectation `json:"expectations,omitempty"`
}

type second struct {
	At    int      `json:"at"`
	Asked *float64 `json:"asked,omitempty"` // absent in a closed loop
	// Rate is of answers while the treatment had the load, absent in a second without load or with the end of it.
	Rate   *float64 `json:"rate,omitempty"`
	Errors int64    `json:"errors"`
	P50    float64  `json:"p50"` // ms, 0 for no answer
	P99    float64  `json:"p99"`
}

// sample is CPU by plane between it and the sample before, in cores.
type sample struct {
	At    float64            `json:"at"`
	Cores map[string]float64 `json:"cores"`
}

type span struct {
	Name string  `json:"name"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// fault ends where it is healed, or with the load.
type fault struct {
	At   float64 `json:"at"`
	To   float64 `json:"to"`
	Text string  `json:"text"`
}

type expectation struct {
	Text   string       `json:"text"`
	OK     bool         `json:"ok"`
	Value  *float64     `json:"value,omitempty"`
	Unit   string       `json:"unit,omitempty"`
	Detail string       `json:"detail"`
	Times  [][2]float64 `json:"times,omitempty"`
}

// timelines returns the timelines of whole blocks, the first ones first, up to mostPoints. An unreadable
// trial is left out: the report has the warning.
func timelines(d *result.Dir) []timeline {
	var all []timeline
	points, block := 0, 0
	for _, t := range d.Plan().Trials {
		if t.Block != block && points > mostPoints {
			break
		}
		block = t.Block
		r, _, err := d.Record(t)
		if err != nil {
			continue
		}
		if l, ok := timelineOf(d, t, &r); ok {
			all, points = append(all, l), points+len(l.Seconds)+len(l.Samples)
		}
	}
	return all
}

var drawnPhases = map[string]bool{"warm-up": true, "measure": true, "drain": true}

// timelineOf reads one trial. It is not ok without a second of load.
func timelineOf(d *result.Dir, t plan.Trial, r *result.Record) (timeline, bool) {
	l := timeline{Trial: t.ID, Treatment: t.Treatment, Seconds: []second{}, Samples: []sample{}, Phases: []span{}}
	if r.Load == nil {
		return l, false
	}
	start := r.Load.Start.Add(-time.Duration(r.Load.WarmupSeconds * float64(time.Second)))
	since := func(at time.Time) float64 { return at.Sub(start).Seconds() }
	for _, p := range r.Phases {
		if drawnPhases[p.Name] {
			l.Phases = append(l.Phases, span{p.Name, since(p.Start), since(p.End)})
		}
	}
	for _, f := range r.Faults {
		to := f.Healed
		if to.IsZero() {
			to = r.Load.End
		}
		l.Faults = append(l.Faults, fault{since(f.Start), max(since(f.Start), since(to)), f.Kind})
	}
	for _, h := range r.ByHand {
		l.Faults = append(l.Faults, fault{since(h.At), max(since(h.At), since(r.Load.End)), h.Target + " by hand"})
	}
	l.Expectations = expectations(r)
	for e, err := range d.Events(t.ID) {
		if err != nil || len(l.Seconds)+len(l.Samples) > mostPoints {
			break
		}
		switch {
		case e.Progress != nil:
			p := e.Progress
			s := second{At: p.Second, Errors: p.Errors, P50: p.P50MS, P99: p.P99MS}
			if rate := p.WhileLoaded(); p.HasLoad() && float64(p.Second) < math.Max(1, math.Floor(since(r.Load.End)+0.01)) {
				s.Rate = &rate
			}
			if p.AskedRate > 0 {
				s.Asked = &p.AskedRate
			}
			l.Seconds = append(l.Seconds, s)
		case e.Sample != nil && len(e.Sample.Cores) > 0:
			l.Samples = append(l.Samples, sample{since(e.Time), e.Sample.Cores})
		}
	}
	return l, len(l.Seconds) > 0
}

// expectations returns the expectations of the record, in seconds from the start of the load.
func expectations(r *result.Record) (all []expectation) {
	first, n := r.Load.Window()
	for _, o := range r.Expectations[:min(mostExpectations, len(r.Expectations))] {
		e := expectation{Text: o.Expect, OK: o.OK, Value: o.Value, Unit: o.Unit, Detail: o.Detail}
		if c, err := expect.Parse(o.Expect); err == nil { // by this version of tare
			for _, t := range c.Times(min(n, mostPoints), r.FaultTimes()) {
				if len(e.Times) == mostSpans {
					break
				}
				e.Times = append(e.Times, [2]float64{t[0] + float64(first), t[1] + float64(first)})
			}
		}
		all = append(all, e)
	}
	return all
}
