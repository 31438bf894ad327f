package page

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/show/loadpage"
)

// Load is the content of the page of one load.
type Load struct {
	Profile *load.Profile
	Report  *load.Report
	Seconds []load.Progress
	Gates   []loadpage.Gate
}

// loadContent is the data of its figures.
type loadContent struct {
	head
	Load loadData `json:"load"`
}

type loadData struct {
	Closed    bool            `json:"closed"`
	Quantiles []quantile      `json:"quantiles"` // of successful requests, ms
	Histogram []load.Bucket   `json:"histogram"`
	Seconds   []load.Progress `json:"seconds"`
	Routes    []routeOf       `json:"routes"`
}

type quantile struct {
	Name string  `json:"name"`
	MS   float64 `json:"ms"`
}

type routeOf struct {
	Name     string  `json:"name"`
	Requests int64   `json:"requests"`
	Failed   int64   `json:"failed"`
	P50MS    float64 `json:"p50"`
	P95MS    float64 `json:"p95"`
	P99MS    float64 `json:"p99"`
}

// mostRoutes is the number of URLs that a page draws, the most frequent first.
const mostRoutes = 40

// WriteLoad writes the page of one load.
func WriteLoad(w io.Writer, l Load) error {
	p, r := l.Profile, l.Report
	name := "tare load"
	if len(p.Targets) > 0 {
		name = p.Targets[0]
	}
	answer := loadpage.Answer(p, r)
	d := document{Name: name, Headline: answer[0], Answer: answer, Band: loadBand(l), Tare: r.Version, Schema: "one load", Command: "tare load"}
	for _, text := range r.Generator.Limits {
		d.Warnings = append(d.Warnings, warning{Code: "generator-limit", Message: text, Hint: "reserve a CPU for the generator, or use more --workers or a lower rate"})
	}
	for _, text := range r.Warnings {
		if !slices.Contains(r.Generator.Limits, text) {
			d.Warnings = append(d.Warnings, warning{Code: "note", Message: text})
		}
	}
	d.Provenance = loadProvenance(p, r)
	return d.fill(w, loadContent{headOf(name), dataOfLoad(l)}, func(w io.Writer) error {
		return loadpage.Write(w, p, r, loadpage.Options{Width: 120, Gates: l.Gates})
	})
}

func dataOfLoad(l Load) loadData {
	r := l.Report
	times := r.ResponseMS
	d := loadData{Closed: r.Loop == "closed", Histogram: r.Histogram, Seconds: l.Seconds}
	if d.Closed {
		times = r.ServiceMS
	}
	if times.Count > 0 {
		d.Quantiles = []quantile{{"p50", times.P50}, {"p75", times.P75}, {"p90", times.P90}, {"p95", times.P95}, {"p99", times.P99}, {"p99.9", times.P999}, {"p99.99", times.P9999}, {"max", times.Max}}
	}
	for _, path := range slices.SortedFunc(maps.Keys(r.Routes), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Routes[b].Requests+r.Routes[b].Failed, r.Routes[a].Requests+r.Routes[a].Failed), strings.Compare(a, b))
	}) {
		if of := r.Routes[path]; len(d.Routes) < mostRoutes {
			d.Routes = append(d.Routes, routeOf{path, of.Requests + of.Failed, of.Failed, of.ResponseMS.P50, of.ResponseMS.P95, of.ResponseMS.P99})
		}
	}
	return d
}

// loadBand is how far the figures can be trusted, and the gates.
func loadBand(l Load) []card {
	r := l.Report
	result := card{Good: len(r.Result.Failures) == 0, Title: "Every request succeeded", Text: printable.Counted(int(r.Requests), "request")}
	if !result.Good {
		result.Title = fmt.Sprintf("%d of %d requests failed", r.Result.Failed(), r.Requests)
		result.Text = r.Result.Failures[0].String()
	}
	generator := card{Good: r.Generator.OK, Title: "The generator kept up", Text: fmt.Sprintf("busiest thread: %.0f %% of a core", 100*r.ThreadCPURatio)}
	if !generator.Good {
		generator.Title, generator.Text, generator.Link = "The generator was the limit", "the times are not those of the server", "#warnings"
	}
	cards := []card{result, generator}
	for _, g := range l.Gates {
		title := "A gate holds"
		if !g.Holds {
			title = "A gate does not hold"
		}
		if g.Undecided {
			title = "A gate is undecided"
		}
		cards = append(cards, card{Good: g.Holds, Title: title, Text: g.Text})
	}
	return cards
}

func loadProvenance(p *load.Profile, r *load.Report) []entry {
	all := []entry{{Name: "Measured", Text: fmt.Sprintf("%s, for %v", r.MeasureStart.UTC().Format("2 January 2006 15:04:05 MST"), r.MeasureEnd.Sub(r.MeasureStart).Round(time.Millisecond))}}
	add := func(name, text string) {
		if text != "" {
			all = append(all, entry{Name: name, Text: text})
		}
	}
	const mostTargets = 20
	for i, target := range p.Targets {
		if i == mostTargets {
			add("", fmt.Sprintf("and %d more", len(p.Targets)-mostTargets))
			break
		}
		all = append(all, entry{Name: map[bool]string{true: "URL"}[i == 0], Text: target, Code: true})
	}
	rate := ""
	if r.Loop == "open" {
		rate = fmt.Sprintf("%g requests/s", p.Rate)
	}
	add("Load", joined(r.Loop+" loop", rate, r.Arrivals, printable.Counted(p.Connections, "connection"), printable.Counted(max(1, p.Workers), "worker")))
	add("Warm-up", p.Warmup.String())
	add("TLS", r.TLS)
	if r.Seed != 0 {
		add("Seed", fmt.Sprint(r.Seed))
	}
	return all
}
