package page

import (
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/compare"
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

func figureDataOf(s Source) figureData {
	return figureData{slicesOf(s), heatOf(s.Dir), looksOf(s), referencesOf(s.Report), searchesOf(s.Dir), memoryOf(s), changesOf(s)}
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
			rounded := math.Round(us*10) / 10
			s.US = append(s.US, &rounded)
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
		all[i] = looks{Gate: d.Gate, Treatment: d.Treatment, Unit: d.Unit, Upper: d.Upper, Limit: d.Limit, Detect: d.Detect, Looks: []look{}}
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
