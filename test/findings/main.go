// Command findings keeps the figures of docs/findings. Runs of an experiment are lines of docs/findings/runs/EXPERIMENT.jsonl, and
// the tables between markers in the pages are written from them. Nothing in a table is typed.
//
//	go run ./test/findings                                      write the tables again
//	go run ./test/findings -add runs/nginx-keepalive -load 0.3  add a run, measured at this load average, and write the tables
//	go run ./test/findings -measure nginx=/opt/nginx            measure a version of a proxy, and add it to proxies.md
//
// A marker names the experiment and the metrics of its columns:
//
//	<!-- runs nginx-keepalive: cpu_us_per_request/data service_ms/mean -->
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

func main() {
	add := flag.String("add", "", "results `directory` of a run to add")
	load := flag.String("load", "", "load average `before` that run")
	pages := flag.String("pages", "docs/findings", "`directory` of the pages")
	versions := flag.Bool("measure", false, "measure `versions` of one proxy, the arguments: NAME=PROGRAM, or NAME@VERSION that tare downloads")
	flag.Parse()
	err := error(nil)
	if *versions {
		err = measure(*pages, flag.Args())
	}
	if err == nil {
		err = run(*pages, *add, *load)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(pages, add, load string) error {
	if add != "" {
		if err := addRun(pages, add, load); err != nil {
			return err
		}
	}
	written, err := tables(pages)
	if err != nil {
		return err
	}
	for name, text := range written {
		if err := os.WriteFile(name, text, 0o644); err != nil { //nolint:gosec // a page that everyone reads
			return err
		}
	}
	return nil
}

// measurement is one run of an experiment.
type measurement struct {
	Date    string   `json:"date"`
	Machine string   `json:"machine"`
	Load    string   `json:"load"` // average before the run
	Tare    string   `json:"tare"`
	Blocks  int      `json:"blocks"`
	Gates   []gate   `json:"gates"`
	Figures []figure `json:"figures"`
}

// gate is a sentence, decided.
type gate struct {
	Gate      string          `json:"gate"`
	Treatment string          `json:"treatment"`
	Outcome   compare.Outcome `json:"outcome"`
	Unit      string          `json:"unit"`
	Change    *stats.Interval `json:"change,omitempty"`
	Why       string          `json:"why,omitempty"`
}

// figure is a metric of a treatment, and its difference to the baseline.
type figure struct {
	Treatment string          `json:"treatment"`
	Metric    string          `json:"metric"`
	Value     stats.Interval  `json:"value"`
	Added     *stats.Interval `json:"added,omitempty"`
}

// addRun appends the figures of a results directory to the runs of its experiment.
func addRun(pages, from, load string) error {
	if load == "" {
		return errors.New("give -load, the load average before the run: the first field of /proc/loadavg")
	}
	dir, err := result.Open(from)
	if err != nil {
		return err
	}
	defer dir.Close()
	r, err := answer.Analyze(dir, compare.Options{})
	if err != nil {
		return err
	}
	e := dir.Environment()
	m := measurement{
		Date: e.Time.UTC().Format("2 January 2006"), Machine: fmt.Sprintf("%s, %d CPUs", cmp.Or(e.CPUModel, e.Arch), e.CPUs), Load: load, Tare: e.Tare, Blocks: r.Count.Blocks,
	}
	label := labels(r.Treatments, r.Names)
	for _, d := range r.Decisions {
		m.Gates = append(m.Gates, gate{Gate: d.Gate, Treatment: label(d.Treatment), Outcome: d.Outcome, Unit: d.Unit, Change: rounded(d.Change), Why: strings.TrimSpace(strings.Join(append([]string{d.Why}, d.Doubts...), " "))})
	}
	for _, t := range r.Treatments {
		for _, known := range r.Metrics() {
			v, ok := t.Metrics[known.Name]
			if !ok || !kept(known.Name) {
				continue
			}
			f := figure{Treatment: label(t.ID), Metric: known.Name, Value: *rounded(&v.Interval)}
			if c, ok := r.Find(t.ID, known.Name); ok {
				f.Added = rounded(c.Difference)
			}
			m.Figures = append(m.Figures, f)
		}
	}
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name := filepath.Join(pages, "runs", r.Experiment+".jsonl")
	before, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, append(append(before, line...), '\n'), 0o644) //nolint:gosec // figures that everyone reads
}

// kept are the metrics of a run that pages may print.
func kept(name string) bool {
	base, part, _ := strings.Cut(name, "/")
	switch base {
	case metric.CPUPerRequest, metric.CPUPer1000, metric.Memory:
		return part == "app" || part == "data" || part == "total"
	case metric.Latency, metric.ServiceTime:
		return part == "mean" || part == "p50" || part == "p90" || part == "p99"
	}
	return false
}

// labels returns the levels of a treatment's factors that differ between treatments, by the names of the experiment.
func labels(all []compare.Treatment, names map[string]string) func(id string) string {
	levels := map[string]map[string]bool{}
	for _, t := range all {
		for f, level := range t.Factors {
			if levels[f] == nil {
				levels[f] = map[string]bool{}
			}
			levels[f][compare.LevelText(level)] = true
		}
	}
	of := map[string]string{}
	for _, t := range all {
		var words []string
		for f, level := range t.Factors {
			if len(levels[f]) > 1 && f != plan.ControlFactor {
				words = append(words, f+" "+compare.LevelText(level))
			}
		}
		slices.Sort(words)
		for i, w := range words {
			name, level, _ := strings.Cut(w, " ")
			switch words[i] = cmp.Or(names[level], level); name {
			case "rate":
				words[i] += "/s"
			case "requestSize", "responseSize":
				if n, err := strconv.Atoi(level); err == nil && n >= 1024 {
					words[i] = fmt.Sprintf("%d KiB", n/1024)
				}
			}
		}
		if of[t.ID] = strings.Join(words, ", "); t.Control {
			of[t.ID] += " (again)"
		}
	}
	return func(id string) string { return of[id] }
}

// rounded has four significant digits of the estimate's size, so that lines stay short.
func rounded(i *stats.Interval) *stats.Interval {
	if i == nil {
		return nil
	}
	unit := math.Pow10(3 - int(math.Floor(math.Log10(math.Max(math.Abs(i.Estimate), 1e-9)))))
	cut := func(v float64) float64 { return math.Round(v*unit) / unit }
	r := stats.Interval{Estimate: cut(i.Estimate)}
	if i.Known() {
		low, high := cut(*i.Low), cut(*i.High)
		r.Low, r.High = &low, &high
	}
	return &r
}

var marked = regexp.MustCompile(`(?s)(<!-- runs ([a-z0-9-]+): ([^>]*?) -->\n).*?(<!-- end -->)`)

// bundledMark begins the table of proxies.
const bundledMark = "<!-- runs of proxies -->"

var bundled = regexp.MustCompile("(?s)" + bundledMark + `\n.*?<!-- end -->`)

// tables returns the pages with tables of runs, by path.
func tables(pages string) (map[string][]byte, error) {
	names, err := filepath.Glob(filepath.Join(pages, "*.md"))
	if err != nil {
		return nil, err
	}
	written := map[string][]byte{}
	for _, name := range names {
		page, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var failed error
		text := page
		if bundled.Match(page) {
			table, err := proxyTable(pages)
			if err != nil {
				return nil, err
			}
			text = bundled.ReplaceAllFunc(page, func([]byte) []byte { return fmt.Appendf(nil, "%s\n\n%s\n<!-- end -->", bundledMark, table) })
		}
		text = marked.ReplaceAllFunc(text, func(block []byte) []byte {
			m := marked.FindSubmatch(block)
			runs, err := readRuns(filepath.Join(pages, "runs", string(m[2])+".jsonl"))
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Appendf(nil, "%s\nNo run so far.\n\n%s", m[1], m[4])
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
				return block
			}
			return fmt.Appendf(nil, "%s\n%s\n%s", m[1], table(runs, strings.Fields(string(m[3]))), m[4])
		})
		if failed != nil {
			return nil, failed
		}
		if marked.Match(page) || bundled.Match(page) {
			written[name] = text
		}
	}
	return written, nil
}

func readRuns(name string) (all []measurement, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		var m measurement
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no runs", name)
	}
	return all, nil
}

// table is the figures of the newest run, and the sentences in all runs.
func table(runs []measurement, metrics []string) string {
	var b strings.Builder
	newest := runs[len(runs)-1]
	b.WriteString("| treatment |")
	for _, name := range metrics {
		m, _ := metric.Lookup(name)
		unit, _ := m.Display()
		fmt.Fprintf(&b, " %s, %s |", name, unit)
	}
	b.WriteString("\n|---" + strings.Repeat("|---:", len(metrics)) + "|\n")
	var treatments []string
	for _, f := range newest.Figures {
		if !slices.Contains(treatments, f.Treatment) {
			treatments = append(treatments, f.Treatment)
		}
	}
	for _, t := range treatments {
		b.WriteString("| " + t + " |")
		for _, name := range metrics {
			b.WriteString(" " + cell(newest.Figures, t, name) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| run | machine, load average | the sentence as a gate | change (interval) | outcome |\n|---|---|---|---|---|\n")
	for _, m := range runs {
		for _, g := range m.Gates {
			change := "unknown"
			if g.Change != nil {
				change = within(*g.Change, true) + " " + unitWords(g.Unit)
			}
			fmt.Fprintf(&b, "| %s, %d blocks | %s, %s | `%s` %s | %s | %s |\n", m.Date, m.Blocks, m.Machine, m.Load, g.Gate, g.Treatment, change, outcomes[g.Outcome])
		}
	}
	fmt.Fprintf(&b, "\n%s\n", agreement(runs))
	return b.String()
}

// outcomes are a sentence's, in words.
var outcomes = map[compare.Outcome]string{compare.Holds: "holds", compare.Breached: "does not hold", compare.Undecided: "undecided here"}

func unitWords(unit string) string {
	if unit == "us" {
		return "µs"
	}
	return unit
}

// cell is the value of a treatment, and in parentheses what it adds to the baseline.
func cell(figures []figure, treatment, name string) string {
	i := slices.IndexFunc(figures, func(f figure) bool { return f.Treatment == treatment && f.Metric == name })
	if i < 0 {
		return "unknown"
	}
	s := within(figures[i].Value, false)
	if a := figures[i].Added; a != nil && a.Known() {
		s += " (" + within(*a, true) + ")"
	}
	return s
}

// within writes an estimate with half of its interval, or with its ends where the estimate is not in the middle.
func within(i stats.Interval, signed bool) string {
	verb := "%."
	if signed {
		verb = "%+."
	}
	half, known := i.HalfWidth()
	size := cmp.Or(half, math.Abs(i.Estimate)/100, 0.001)
	digits := max(0, 1-int(math.Floor(math.Log10(size))))
	verb += fmt.Sprint(digits) + "f"
	s := fmt.Sprintf(verb, i.Estimate)
	switch {
	case !known && i.Estimate == 0: // nothing of it, in every trial
		return "0"
	case !known:
		return s + " ±?"
	case math.Abs(*i.High+*i.Low-2*i.Estimate) > half/5:
		return fmt.Sprintf(s+" ("+verb+" to "+verb+")", *i.Low, *i.High)
	}
	return fmt.Sprintf(s+" ±%.*f", digits, half)
}

// agreement reports whether the intervals of each gate overlap in all runs.
func agreement(runs []measurement) string {
	if len(runs) == 1 {
		return "One run so far. Runs on other days and machines follow."
	}
	var apart []string
	for _, g := range runs[0].Gates {
		low, high := math.Inf(-1), math.Inf(1)
		for _, m := range runs {
			for _, o := range m.Gates {
				if o.Gate == g.Gate && o.Treatment == g.Treatment && o.Change != nil && o.Change.Known() {
					low, high = math.Max(low, *o.Change.Low), math.Min(high, *o.Change.High)
				}
			}
		}
		if low > high {
			apart = lists.Add(apart, g.Treatment)
		}
	}
	if len(apart) > 0 {
		return fmt.Sprintf("The intervals of %d runs do not overlap in the gates of %s.", len(runs), strings.Join(apart, "; "))
	}
	return fmt.Sprintf("The intervals of %d runs overlap.", len(runs))
}
