package page

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/answer/effective"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
)

// card is a fact of the verdict band.
type card struct {
	Good        bool
	Info        bool // neither good nor bad
	Title, Text string
	Link        string // of Text, within the page, empty for none
}

// band is how far the answer can be trusted.
func band(s Source) []card {
	n := s.Report.Count
	trials := card{Good: n.Used == n.Planned, Title: report.TrialsUsed(s.Report), Text: printable.Counted(n.Blocks, "repetition")}
	if !trials.Good {
		trials.Text = fmt.Sprintf("invalid: %d, failed: %d, not recorded: %d", n.Invalid, n.Failed, n.Missing)
	}
	if withheld := report.WithheldTimes(s.Report); withheld != "" {
		trials = card{Title: "Response times withheld", Text: trials.Title + "; " + withheld}
	}
	cards := []card{trials}
	if floors := report.FloorWords(s.Report); len(floors) > 0 {
		c := card{Good: !noisyCPU(s.Report), Title: "Noise: " + strings.Join(floors, ", "), Text: "the baseline against itself, in CPU per request"}
		if n := len(floors); n > 1 {
			c.Title, c.Text = fmt.Sprintf("Noise of %d baselines", n), "each against itself, in CPU per request: "+floors[0]+" to "+floors[n-1]
		}
		if !c.Good {
			c.Text = "the baseline differs from itself, but must not"
		}
		cards = append(cards, c)
	} else {
		text := "the baseline was not measured twice"
		if s.Report.Method != compare.Paired {
			text = "imported baselines are measured once"
		}
		cards = append(cards, card{Title: "Noise unknown", Text: text})
	}
	if words := report.SmallestWords(s.Report); words != "" {
		cards = append(cards, card{Info: true, Title: "Too small to see", Text: words})
	}
	w := warningCard(len(s.Report.Warnings))
	if n := len(s.Report.Warnings); n > 0 {
		w.Title = report.WarningTitle(s.Report)
		w.Text = "1 warning, with its fix"
		if n > 1 {
			w.Text = fmt.Sprintf("and %s, with causes and fixes", printable.Counted(n-1, "more warning"))
		}
	}
	cards = append(cards, w)
	return append(cards, verified(s.Verified)...)
}

func verified(v *verify.Result) []card {
	switch {
	case v == nil:
		return nil
	case v.Problems() > 0:
		return []card{{Title: printable.Counted(v.Problems(), "problem") + " in the records", Text: "see Provenance", Link: "#provenance"}}
	}
	return []card{{Good: true, Title: "Records verified", Text: printable.Counted(v.Files, "file") + " with the recorded SHA-256"}}
}

// noisyCPU reports whether the CPU of a baseline differs from itself.
func noisyCPU(r *answer.Report) bool {
	return slices.ContainsFunc(r.Warnings, func(w figures.Warning) bool {
		return w.Code == "aa-differs" && slices.ContainsFunc(w.Metrics, func(name string) bool { return metric.Base(name) == metric.CPUPerRequest })
	})
}

// warning is one of the report's.
type warning struct{ Code, Count, Message, Hint string }

func warnings(r *answer.Report) []warning {
	var all []warning
	for _, w := range report.Warnings(r) {
		x := warning{Code: w.Code, Message: w.Message, Hint: w.Hint}
		if w.Trials > 0 {
			x.Count = fmt.Sprintf("%d of %s", w.Trials, printable.Counted(r.Count.Planned, "trial"))
		}
		all = append(all, x)
	}
	return all
}

// configuration lists the differences between two treatments of a mesh and its variants, as they ran.
type configuration struct {
	A, B  string
	Lines []string
}

func configurations(r *answer.Report) (all []configuration) {
	names := report.WordsOf(r).Names
	for _, c := range r.Configurations {
		all = append(all, configuration{names[c.A], names[c.B], report.ConfigurationLines(c)})
	}
	return all
}

// entry is a line of the provenance.
type entry struct {
	Name, Text string
	Code       bool
}

func provenance(s Source) []entry {
	var all []entry
	add := func(name, text string, code bool) {
		if text != "" {
			all = append(all, entry{name, text, code})
		}
	}
	setup, e := s.Report.Setup, s.Dir.Environment()
	if setup.FirstStart != nil && setup.LastEnd != nil {
		add("Measured", setup.FirstStart.UTC().Format("2 January 2006 15:04:05 MST")+", for "+setup.LastEnd.Sub(*setup.FirstStart).Round(time.Second).String(), false)
	}
	var machine []string // the lines above have the rest
	if setup.MemoryMB > 0 {
		machine = append(machine, fmt.Sprintf("%d MB of memory", setup.MemoryMB))
	}
	add("Machine", joined(append(machine, e.Arch, setup.Governor)...), false)
	add("Generator", setup.Generator, false)
	if setup.Seed != 0 {
		add("Seed", fmt.Sprint(setup.Seed), false)
	}
	for _, line := range report.VerifiedLines(s.Report) {
		add("Verified", line, false)
	}
	add("Outside", report.OutsideLine(s.Report), false)
	add("Method", string(s.Report.Method), false)
	add("Command", strings.Join(e.Command, " "), true)
	if s.Report.Method == compare.Paired { // others are imports
		add("Repeat with", "tare run experiment.yaml", true)
	}
	add("Results", s.Dir.Path(), true)
	add("Experiment file, SHA-256", e.ExperimentSHA256, true)
	for _, name := range slices.Sorted(maps.Keys(e.Meshes)) {
		add("Definition of "+name+", SHA-256", e.Meshes[name], true)
	}
	images := imagesOf(s.Dir)
	for i, name := range slices.Sorted(maps.Keys(images)) {
		if i == mostImages {
			add("", "and "+printable.Counted(len(images)-i, "more image"), false)
			break
		}
		add("Image "+name, images[name], true)
	}
	if v := s.Verified; v != nil {
		add("tare verify", fmt.Sprintf("%d of %s recorded, %s compared, %s", v.Recorded, printable.Counted(v.Due, "trial"), printable.Counted(v.Files, "digest"), printable.Counted(v.Problems(), "problem")), false)
		for i, f := range v.Findings {
			if i == mostFindings {
				add("", fmt.Sprintf("and %d more", len(v.Findings)-i), false)
				break
			}
			add(string(f.Severity), strings.TrimPrefix(f.File+": "+f.Message, ": "), false)
		}
	}
	return all
}

// mostImages are listed.
const mostImages = 40

// imagesOf are the image digests of the first trial of each treatment. An unreadable file has none: `tare verify`
// reports it.
func imagesOf(d *result.Dir) map[string]string {
	all, digests, seen := map[string]string{}, map[string][]string{}, map[string]bool{}
	for _, t := range d.Plan().Trials {
		if seen[t.Treatment] {
			continue
		}
		seen[t.Treatment] = true
		of, err := effective.Images(d.TrialFile(t.ID, result.ProvenanceDir))
		if err != nil {
			continue
		}
		for image, digest := range of {
			if !slices.Contains(digests[image], digest) {
				digests[image] = append(digests[image], digest)
				all[image] = strings.Join(digests[image], ", ")
			}
		}
	}
	return all
}

// mostFindings of a verification are listed.
const mostFindings = 20

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" || s == " loop" }), ", ")
}

// changed is a kind of change with one treatment: its times over all trials, and when requests failed.
type changed struct {
	Treatment string       `json:"treatment"`
	Kind      string       `json:"kind"`
	Changes   int          `json:"changes"`
	Times     [][2]float64 `json:"times"`            // ms that was observed, share of changes
	Band      [][3]float64 `json:"band,omitempty"`   // share of changes, and the bounds of its time, ms
	Failed    [][3]float64 `json:"failed,omitempty"` // from and to, ms after a change, and failed requests per change and ms
}

const (
	bandSteps    = 20   // of the share of changes
	failureBins  = 40   // of the time around a change
	leastTime    = 0.01 // ms, of a logarithmic axis
	mostObserved = 4000 // times of a kind with one treatment
)

// changesOf is the data of the figures of changes, in the order of kinds and treatments.
func changesOf(s Source) (all []changed) {
	records, err := s.Dir.Records()
	if err != nil {
		return nil // the report has the figures
	}
	for _, kind := range metric.ChangeNames(nil) {
		for _, t := range s.Report.Treatments {
			if c := changesWith(records, t.ID, kind); c.Changes > 0 {
				all = append(all, c)
			}
		}
	}
	return all
}

func changesWith(records []result.Record, treatment, kind string) changed {
	of := changed{Treatment: treatment, Kind: kind, Times: [][2]float64{}} // the page needs a list, also of none
	var times []stats.Bounded
	var failed, seen []float64 // seen: ms of the observation that a time is known by
	bounds := stats.LatestBounds
	for i := range records {
		if r := &records[i]; r.Valid && r.Treatment == treatment && len(times) < mostObserved {
			for _, c := range r.Changes {
				if c.Kind != kind {
					continue
				}
				of.Changes++
				failed = append(failed, c.FailedMS...)
				span := c.Time()
				if span == nil {
					continue
				}
				one := span.Bounded()
				if times = append(times, one); math.IsInf(one.Before, 1) {
					continue
				}
				if seen = append(seen, one.After); c.LastOld == nil {
					seen[len(seen)-1], bounds = one.Before, stats.EarliestBounds
				}
			}
		}
	}
	slices.Sort(seen)
	for i, ms := range seen {
		of.Times = append(of.Times, [2]float64{max(leastTime, ms), float64(i+1) / float64(len(times))})
	}
	for i := 1; i < bandSteps && len(times) >= bandSteps; i++ {
		share := float64(i) / bandSteps
		if low, high, _ := bounds(times, share); !math.IsInf(high, 1) {
			of.Band = append(of.Band, [3]float64{share, max(leastTime, low), max(leastTime, high)})
		}
	}
	of.Failed = around(failed, of.Changes)
	return of
}

// around counts failed requests by their time around a change.
func around(failed []float64, changes int) (all [][3]float64) {
	if len(failed) == 0 {
		return nil
	}
	from, to := 0.0, 0.0
	for _, ms := range failed {
		from, to = min(from, ms), max(to, ms)
	}
	width := max(1, math.Ceil((to-from)/failureBins))
	from = math.Floor(from/width) * width
	counts := make([]int, int((to-from)/width)+1)
	for _, ms := range failed {
		counts[int((ms-from)/width)]++
	}
	for i, n := range counts {
		at := from + float64(i)*width
		all = append(all, [3]float64{at, at + width, float64(n) / width / float64(changes)})
	}
	return all
}

// memory is the resident memory of a plane of one trial over its measure phase.
type memory struct {
	Treatment string       `json:"treatment"`
	Block     int          `json:"block"`
	Plane     string       `json:"plane"`  // in words
	Points    [][2]float64 `json:"points"` // seconds, MiB
}

// longMemory is the number of readings from which the course of memory is drawn even where it does not grow.
const longMemory = 30

// memoryOf reads the first blocks. Where memory is steady in a short phase, its course says no more than its figure.
func memoryOf(s Source) (all []memory) {
	if len(s.Report.Trends) > 0 {
		return nil // the figure of the soak has it
	}
	records, err := s.Dir.Records()
	if err != nil {
		return nil // the report has the figures
	}
	grows := slices.ContainsFunc(s.Report.Warnings, func(w figures.Warning) bool { return w.Code == answer.MemoryGrows })
	points := 0
	for i := range records {
		if !records[i].Valid || points > mostPoints/2 {
			continue
		}
		for _, p := range metric.Parts() {
			if len(p.Planes) > 1 || !slices.Contains(metric.IdleParts, p.Name) {
				continue
			}
			course := figures.MemoryCourse(&records[i], p)
			if len(course) < 2 || !grows && len(course) < longMemory {
				continue
			}
			all = append(all, memory{records[i].Treatment, records[i].Block, p.Title, course})
			points += len(course)
		}
	}
	return all
}
