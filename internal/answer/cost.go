package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/stats"
)

// Cost is the cost of the treatments in cores, memory and money.
type Cost struct {
	Prices     Prices         `json:"prices"`
	Units      []UnitCost     `json:"units"`
	Scenarios  []ScenarioCost `json:"scenarios"`
	References []Reference    `json:"references"`
}

// Bill is the scope of a cost.
type Bill string

const (
	// DataPlaneBill is the CPU and memory of its tasks.
	DataPlaneBill Bill = "data plane"
	// AddedBill is the total added cost over the baseline for the owner of the
	// application: data and control plane, and their effect on application and platform.
	AddedBill Bill = "added in all"
)

// UnitCost is the cost of a treatment per 1000 requests/s and per pod of
// the application. Unknown figures are absent.
type UnitCost struct {
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	Bill      Bill         `json:"boundary"`
	Rate      float64      `json:"rate"` // measured, requests/s
	Pods      int          `json:"pods,omitempty"`
	// Cores and GiB per 1000 requests/s, at the measured rate.
	Cores *stats.Interval `json:"cores_per_1000_rps,omitempty"`
	GiB   *stats.Interval `json:"gib_per_1000_rps,omitempty"`
	// PodCores and PodGiB are per pod of the application.
	PodCores *stats.Interval `json:"cores_per_pod,omitempty"`
	PodGiB   *stats.Interval `json:"gib_per_pod,omitempty"`
	// Proxy is present for the data plane, if its proxies are known.
	Proxy *ProxyCost `json:"proxy,omitempty"`
}

// ProxyCost is the cost of the data plane in the units in which makers of proxies publish,
// and of the control plane for each proxy and service.
type ProxyCost struct {
	Path
	// CallUS is CPU time for each call that a proxy handles, and Cores the same for one
	// proxy at 1000 requests/s.
	CallUS *stats.Interval `json:"cpu_us_per_proxied_call,omitempty"`
	Cores  *stats.Interval `json:"cores_per_proxy_at_1000_rps,omitempty"`
	MiB    *stats.Interval `json:"mib_per_proxy,omitempty"`
	// IdleCores is the CPU of a proxy without requests. It is the line through the rates, at zero, or else the CPU
	// outside the slices of interleaved trials.
	IdleCores *stats.Interval `json:"idle_cores_per_proxy,omitempty"`
	// IdleMiB is its resident memory before the load.
	IdleMiB *stats.Interval `json:"idle_mib_per_proxy,omitempty"`
	// The control plane, divided by the proxies and by the services.
	ControlCoresPerProxy   *stats.Interval `json:"control_cores_per_proxy,omitempty"`
	ControlMiBPerProxy     *stats.Interval `json:"control_mib_per_proxy,omitempty"`
	ControlCoresPerService *stats.Interval `json:"control_cores_per_service,omitempty"`
	ControlMiBPerService   *stats.Interval `json:"control_mib_per_service,omitempty"`
}

// ScenarioCost is one treatment in one scenario.
type ScenarioCost struct {
	Scenario  string          `json:"scenario"`
	Treatment string          `json:"treatment"`
	Factors   plan.Factors    `json:"factors"`
	Bill      Bill            `json:"boundary"`
	Cores     *stats.Interval `json:"cores,omitempty"`
	GiB       *stats.Interval `json:"gib,omitempty"`
	Money     *stats.Interval `json:"money_per_month,omitempty"`
	// Unmeasured is the rate of a copy of the measured setup that no cost is known for, requests/s.
	Unmeasured float64 `json:"unmeasured_rate,omitempty"`
	// How is the basis of the cost, or the reason for its absence.
	How string `json:"how"`
}

// Reference is a figure published by others, with its conditions.
type Reference struct {
	Who   string  `yaml:"who" json:"who"`
	What  string  `yaml:"what" json:"what"`
	Cores float64 `yaml:"cores,omitempty" json:"cores_per_1000_rps,omitempty"`
	MiB   float64 `yaml:"mib,omitempty" json:"mib,omitempty"`
	// Per is the unit of Cores and MiB: "proxy", or "data plane" as a whole. Figures of a "control plane" with
	// Proxies are ControlCores and ControlMiB.
	Per string `yaml:"per" json:"per"`
	// P50MS, P90MS and P99MS are the added latency of Proxies proxies, or of a data plane as a whole, ms.
	P50MS   float64 `yaml:"p50,omitempty" json:"p50_ms,omitempty"`
	P90MS   float64 `yaml:"p90,omitempty" json:"p90_ms,omitempty"`
	P99MS   float64 `yaml:"p99,omitempty" json:"p99_ms,omitempty"`
	Proxies int     `yaml:"proxies,omitempty" json:"proxies,omitempty"`
	// ControlCores and ControlMiB are of a whole control plane, at no particular load.
	ControlCores float64 `yaml:"control_cores,omitempty" json:"control_cores,omitempty"`
	ControlMiB   float64 `yaml:"control_mib,omitempty" json:"control_mib,omitempty"`
	Conditions   string  `yaml:"conditions" json:"conditions"`
	Source       string  `yaml:"source" json:"source"`
	Date         string  `yaml:"date" json:"date"`
}

// AddCost computes r.Cost, with published figures beside it.
func (r *Report) AddCost(d *result.Dir, p Prices, published []Reference) error {
	records, err := d.Records()
	if err != nil {
		return fmt.Errorf("work out the cost: %w", err)
	}
	c := &Cost{Prices: p, Units: []UnitCost{}, Scenarios: []ScenarioCost{}, References: published}
	pods, paths := podsByTreatment(records), pathsByTreatment(records)
	for _, t := range r.Treatments {
		if t.Control {
			continue
		}
		for _, b := range []Bill{DataPlaneBill, AddedBill} {
			if u, ok := r.unitCost(t, b, pods[t.ID]); ok {
				if b == DataPlaneBill {
					u.Proxy = r.proxyCost(t, paths[t.ID])
				}
				c.Units = append(c.Units, u)
			}
		}
	}
	for _, s := range p.Scenarios {
		for _, u := range c.Units {
			if s.Pods > 0 && !r.leads(u.Treatment) {
				continue // the line through all rates answers for the others
			}
			sc := r.scenario(s, measuredAt(c.Units, u, s), p)
			sc.Treatment = u.Treatment
			c.Scenarios = append(c.Scenarios, sc)
		}
	}
	r.Cost = c
	return nil
}

// measuredAt is the cost of the treatment that differs from u in rate alone, and was measured at the rate of a copy in
// the scenario. Without one it is u.
func measuredAt(units []UnitCost, u UnitCost, s Scenario) UnitCost {
	if s.Pods == 0 || u.Pods == 0 {
		return u
	}
	rate, key := s.Rate*float64(u.Pods)/float64(s.Pods), fmt.Sprint(compare.WithoutRate(u.Factors))
	for _, o := range units {
		if o.Bill == u.Bill && o.Pods == u.Pods && math.Abs(rate-o.Rate) <= 0.01*o.Rate && fmt.Sprint(compare.WithoutRate(o.Factors)) == key {
			return o
		}
	}
	return u
}

// leads reports whether the treatment is the first among treatments that differ in rate alone.
func (r *Report) leads(treatment string) bool {
	i := slices.IndexFunc(r.Treatments, func(t compare.Treatment) bool { return t.ID == treatment })
	key := fmt.Sprint(compare.WithoutRate(r.Treatments[i].Factors))
	return !slices.ContainsFunc(r.Treatments[:i], func(t compare.Treatment) bool {
		return !t.Control && t.Baseline != "" == (r.Treatments[i].Baseline != "") && fmt.Sprint(compare.WithoutRate(t.Factors)) == key
	})
}

// podsByTreatment counts the pods of the application, 0 if unknown.
func podsByTreatment(records []result.Record) map[string]int {
	pods := map[string]int{}
	for i := range records {
		r := &records[i]
		seen := map[string]bool{}
		for _, t := range r.Tasks {
			if t.Plane == metric.App && t.Pod != "" {
				seen[t.Namespace+"/"+t.Pod] = true
			}
		}
		if n := len(seen); n > pods[r.Treatment] {
			pods[r.Treatment] = n
		}
	}
	return pods
}

func (r *Report) unitCost(t compare.Treatment, b Bill, pods int) (UnitCost, bool) {
	u := UnitCost{Treatment: t.ID, Factors: t.Factors, Bill: b, Pods: pods, Rate: t.Metrics[metric.Rate].Estimate}
	if t.Baseline == "" {
		return u, false // it has no data plane, and adds nothing to itself
	}
	of := func(name string) *stats.Interval {
		if b == DataPlaneBill {
			if e, ok := t.Metrics[name+"/data"]; ok {
				return &e.Interval
			}
			return nil
		}
		c, _ := r.Find(t.ID, name+"/total")
		return c.Judged(r.Confidence).Difference
	}
	u.Cores = of(metric.CPUPer1000)
	memory := of(metric.Memory)
	if memory != nil && u.Rate > 0 {
		u.GiB = scaled(memory, 1000/u.Rate/1024)
	}
	if pods > 0 {
		if memory != nil {
			u.PodGiB = scaled(memory, 1/1024.0/float64(pods))
		}
		if cores := of(metric.CPUCores); cores != nil {
			u.PodCores = scaled(cores, 1/float64(pods))
		}
	}
	return u, u.Cores != nil || u.GiB != nil
}

// proxyCost divides the figures of a treatment by its proxies and their calls.
func (r *Report) proxyCost(t compare.Treatment, p Path) *ProxyCost {
	if p.Proxies == 0 {
		return nil
	}
	c := &ProxyCost{Path: p}
	of := func(base, part string, by float64) *stats.Interval {
		e, ok := t.Metrics[metric.Of(base, part)]
		if !ok || !(by > 0) || e.Estimate == 0 {
			return nil
		}
		return scaled(&e.Interval, 1/by)
	}
	c.CallUS = of(metric.CPUPerRequest, string(metric.Data), p.Proxied)
	c.Cores = of(metric.CPUPer1000, string(metric.Data), p.Proxied)
	c.IdleMiB = of(metric.IdleMemory, string(metric.Data), float64(p.Proxies))
	c.MiB = of(metric.Memory, string(metric.Data), float64(p.Proxies))
	c.ControlCoresPerProxy = of(metric.CPUCores, string(metric.Control), float64(p.Proxies))
	c.ControlMiBPerProxy = of(metric.Memory, string(metric.Control), float64(p.Proxies))
	c.ControlCoresPerService = of(metric.CPUCores, string(metric.Control), float64(p.Services))
	c.ControlMiBPerService = of(metric.Memory, string(metric.Control), float64(p.Services))
	key := fmt.Sprint(compare.WithoutRate(t.Factors))
	for _, l := range r.Lines {
		if l.Part == string(metric.Data) && l.Role == "" && fmt.Sprint(l.Factors) == key && len(l.Warnings) == 0 {
			c.IdleCores = scaled(&l.FixedCores, 1/float64(p.Proxies))
		}
	}
	if c.IdleCores == nil {
		c.IdleCores = of(metric.IdleCPU, string(metric.Data), float64(p.Proxies))
	}
	return c
}

func (r *Report) scenario(s Scenario, u UnitCost, p Prices) ScenarioCost {
	c := ScenarioCost{Scenario: s.Name, Treatment: u.Treatment, Factors: u.Factors, Bill: u.Bill}
	switch {
	case s.Pods == 0:
		c.Cores, c.GiB = scaled(u.Cores, s.Rate/1000), scaled(u.GiB, s.Rate/1000)
		c.How = fmt.Sprintf("%.4g copies of the measured setup, each at %.4g/s", s.Rate/u.Rate, u.Rate)
	case u.Pods == 0:
		c.How = "unknown: the number of measured pods is unknown; leave pods out of the scenario"
	default:
		copies := float64(s.Pods) / float64(u.Pods)
		c.GiB = scaled(u.PodGiB, float64(s.Pods))
		var cores *stats.Interval
		cores, c.How = r.coresAt(u, s.Rate/copies)
		if c.Cores = scaled(cores, copies); cores == nil {
			c.Unmeasured = s.Rate / copies
		}
		c.Factors = compare.WithoutRate(u.Factors)
	}
	c.Money = p.money(c.Cores, c.GiB)
	return c
}

// money adds up what both cost in a month, nil if the amount of one that has a price is unknown. The ends of the
// intervals are added, which is too wide if the two vary independently.
func (p Prices) money(cores, gib *stats.Interval) *stats.Interval {
	if cores == nil {
		return nil
	}
	m := cores.Times(p.Core.Month)
	if p.GiB == nil {
		return &m
	}
	if gib == nil {
		return nil
	}
	g := gib.Times(p.GiB.Month)
	sum := stats.Interval{Estimate: m.Estimate + g.Estimate}
	if m.Known() && g.Known() {
		low, high := *m.Low+*g.Low, *m.High+*g.High
		sum.Low, sum.High = &low, &high
	} else if m.Known() { // memory that is the same in every trial has no interval
		low, high := *m.Low+g.Estimate, *m.High+g.Estimate
		sum.Low, sum.High = &low, &high
	}
	return &sum
}

// coresAt is the CPU at the boundary if one copy of the measured setup gets
// rate requests/s: along the line through the measured rates if they fit one,
// else at the measured rate only.
func (r *Report) coresAt(u UnitCost, rate float64) (*stats.Interval, string) {
	if math.Abs(rate-u.Rate) <= 0.01*u.Rate {
		return scaled(u.Cores, rate/1000), fmt.Sprintf("at the measured %.4g/s", u.Rate)
	}
	part := map[Bill]string{DataPlaneBill: "data", AddedBill: "total"}[u.Bill]
	i := slices.IndexFunc(r.Treatments, func(t compare.Treatment) bool { return t.ID == u.Treatment })
	with, how := r.along(r.Treatments[i].Factors, part, rate)
	if with == nil || u.Bill == DataPlaneBill {
		return with, how
	}
	j := slices.IndexFunc(r.Treatments, func(t compare.Treatment) bool { return t.ID == r.Treatments[i].Baseline })
	without, why := r.along(r.Treatments[j].Factors, part, rate)
	if without == nil {
		return nil, "of the baseline: " + why
	}
	d := stats.Interval{Estimate: with.Estimate - without.Estimate}
	h1, ok1 := with.HalfWidth()
	h2, ok2 := without.HalfWidth()
	if ok1 && ok2 { // two fits apart: their errors add as squares
		half := math.Hypot(h1, h2)
		low, high := d.Estimate-half, d.Estimate+half
		d.Low, d.High = &low, &high
	}
	return &d, how
}

func scaled(i *stats.Interval, by float64) *stats.Interval {
	if i == nil {
		return nil
	}
	return new(i.Times(by))
}

// along is the height of a part's line at a rate, with the interval of the line there.
func (r *Report) along(f plan.Factors, part string, rate float64) (*stats.Interval, string) {
	key := fmt.Sprint(compare.WithoutRate(f))
	i := slices.IndexFunc(r.Lines, func(l compare.Line) bool { return l.Part == part && l.Role == "" && fmt.Sprint(l.Factors) == key })
	if i < 0 {
		return nil, fmt.Sprintf("unknown: %.4g/s per copy was not measured, and a line through the rates needs %d of them", rate, compare.MinRates)
	}
	line := r.Lines[i]
	if len(line.Warnings) > 0 {
		return nil, fmt.Sprintf("unknown: %.4g/s per copy was not measured, and the measured rates do not fit a line", rate)
	}
	var points []stats.Point
	groups := map[string]int{}
	for _, t := range r.Trials {
		y, ok := t.Metrics[metric.CPUCores+"/"+part]
		x, rated := t.Metrics[metric.Rate]
		if !t.Valid || t.Control || !ok || !rated || fmt.Sprint(compare.WithoutRate(t.Factors)) != key {
			continue
		}
		if _, ok := groups[t.Treatment]; !ok {
			groups[t.Treatment] = len(groups)
		}
		points = append(points, stats.Point{X: x - rate, Y: y, Group: groups[t.Treatment]}) // so that the line's height there is its intercept
	}
	stats.WeighByGroup(points)
	fit := stats.Line(points, r.Confidence)
	if fit.Intercept.Why != stats.Computed {
		return nil, "unknown: the line through the rates has no interval"
	}
	how := fmt.Sprintf("from the line through the rates, at %.4g/s per copy", rate)
	if rate < line.From || rate > line.To {
		how += fmt.Sprintf(": BEYOND the measured %.4g to %.4g/s, where the line is not verified", line.From, line.To)
	}
	return &fit.Intercept.Interval, how
}

// pricesKind is the kind of a file of prices.
const pricesKind = "Prices"

// Prices turn cores and memory into money. Every price is dated and sourced. The reference of the file has the tags doc.
type Prices struct {
	APIVersion string     `yaml:"apiVersion" json:"-" doc:"tare.dev/v1beta1"`
	Kind       string     `yaml:"kind" json:"-" doc:"Prices"`
	Currency   string     `yaml:"currency" json:"currency" doc:"three letters, such as USD"`
	Core       Price      `yaml:"core" json:"core" doc:"price of a core (vCPU)"`
	GiB        *Price     `yaml:"gib,omitempty" json:"gib,omitempty" doc:"price of a GiB of memory. Without it money is of CPU alone."`
	Scenarios  []Scenario `yaml:"scenarios" json:"scenarios" doc:"loads to price. The report begins with the first one."`
}

// Price is the cost of one unit for a month of 730 hours.
type Price struct {
	Month  float64 `yaml:"month" json:"month" doc:"amount for 730 hours"`
	Source string  `yaml:"source" json:"source" doc:"origin of the price"`
	Date   Date    `yaml:"date" json:"date" doc:"day of the source, such as 2026-03-01"`
}

// Scenario is a rate, and over how many pods of the application it goes.
type Scenario struct {
	Name string  `yaml:"name" json:"name" doc:"name in reports"`
	Rate float64 `yaml:"rate" json:"rate" doc:"requests/s in all"`
	Pods int     `yaml:"pods,omitempty" json:"pods,omitempty" doc:"pods of the application that share the rate. Without them the measured setup is copied as often as the rate needs."`
}

// MonthOf is the price of a month of cores and MiB. Memory without a price costs nothing.
func (p *Prices) MonthOf(cores, mib float64) float64 {
	sum := cores * p.Core.Month
	if p.GiB != nil {
		sum += mib / 1024 * p.GiB.Month
	}
	return sum
}

// Date is a day, YYYY-MM-DD.
type Date string

// Wants is the form that UnmarshalScalar expects.
func (Date) Wants() string { return "a date such as 2026-03-01" }

// UnmarshalScalar reads a day.
func (d *Date) UnmarshalScalar(text string) error {
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return fmt.Errorf("found %.40q, expected %s", text, d.Wants())
	}
	*d = Date(text)
	return nil
}

// ReadPrices reads and checks a file of prices. The error is a [strict.Problems]
// with every mistake, or the error of reading the file.
func ReadPrices(path string) (*Prices, error) {
	data, err := strict.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return DecodePrices(path, data)
}

// DecodePrices is [ReadPrices] for a file that was read already, and name is shown in errors.
func DecodePrices(name string, data []byte) (*Prices, error) {
	doc, err := strict.Parse(name, data)
	if err != nil {
		return nil, err
	}
	if kind, ok := doc.Text("kind"); ok && kind != pricesKind { // all other fields would be mistakes too
		doc.Report("kind", fmt.Sprintf("found %.40q, expected %q", kind, pricesKind), "write kind: "+pricesKind+", or give a file of prices such as examples/prices-gcp.yaml")
		return nil, doc.Err()
	}
	p := &Prices{}
	doc.Decode(p)
	report := func(path, message, hint string) {
		if doc.Sound(path) {
			doc.Report(path, message, hint)
		}
	}
	for _, f := range []struct {
		path, found, want string
	}{{"apiVersion", p.APIVersion, experiment.APIVersion}, {"kind", p.Kind, pricesKind}} {
		if f.found != f.want {
			report(f.path, fmt.Sprintf("found %.40q, expected %q", f.found, f.want), "write "+f.path+": "+f.want)
		}
	}
	if c := p.Currency; len(c) != 3 || c != strings.ToUpper(c) {
		report("currency", fmt.Sprintf("found %.40q, expected a currency of three letters", c), "write currency: USD")
	}
	checkPrice(doc, report, "core", p.Core)
	if p.GiB != nil {
		checkPrice(doc, report, "gib", *p.GiB)
	}
	if len(p.Scenarios) == 0 {
		report("scenarios", "no scenario is given", "write scenarios: [{name: today, rate: 1000}]")
	}
	for i, s := range p.Scenarios {
		at := fmt.Sprintf("scenarios[%d]", i)
		if s.Name == "" {
			report(at+".name", "no name is given", "")
		}
		if !(s.Rate > 0) || s.Rate > 1e12 {
			report(at+".rate", fmt.Sprintf("%v requests per second is not above 0 and at most 1e12", s.Rate), "")
		}
		if s.Pods < 0 || s.Pods > 1e9 {
			report(at+".pods", fmt.Sprintf("%d pods is not between 1 and 1e9", s.Pods), "leave pods out to copy the measured setup")
		}
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

func checkPrice(doc *strict.Document, report func(path, message, hint string), at string, p Price) {
	if !doc.Has(at) {
		report(at, "no price is given", "write "+at+": {month: 40, source: \"…\", date: 2026-03-01}")
		return
	}
	if !(p.Month >= 0) || math.IsInf(p.Month, 0) || p.Month > 1e9 || !doc.Has(at+".month") {
		report(at+".month", "no price of a month between 0 and 1e9 is given", "")
	}
	if p.Source == "" {
		report(at+".source", "a price needs its source", "write the source of the price")
	}
	if p.Date == "" {
		report(at+".date", "a price needs its date", "write the date of the source, such as 2026-03-01")
	}
}

// Path has the calls that one request at the entry causes. A field that is not known is zero.
type Path struct {
	// Calls between services, the entry's own included.
	Calls int `json:"calls_per_request,omitempty"`
	// Proxies is the number of tasks of the data plane, and Services of the application.
	Proxies  int `json:"proxies,omitempty"`
	Services int `json:"services,omitempty"`
	// Proxied are the calls that proxies handle, for one request: a call that passes two
	// sidecars counts twice.
	Proxied float64 `json:"proxied_per_request,omitempty"`
	// Counted: Proxied is from the counters of the proxies, and not from the topology.
	Counted bool `json:"proxied_counted,omitempty"`
}

// pathsByTreatment returns the request path of each treatment's valid trials. It is empty if these trials differ.
func pathsByTreatment(records []result.Record) map[string]Path {
	paths, trials := map[string]Path{}, map[string]int{}
	for i := range records {
		r := &records[i]
		if r.Error != "" || !r.Valid {
			continue
		}
		p := pathOf(r)
		was, seen := paths[r.Treatment]
		if !seen {
			paths[r.Treatment], trials[r.Treatment] = p, 1
			continue
		}
		if was.Calls != p.Calls || was.Proxies != p.Proxies || was.Services != p.Services || was.Counted != p.Counted {
			paths[r.Treatment] = Path{}
			continue
		}
		// The mean: retries and cancelled requests differ from trial to trial.
		n := float64(trials[r.Treatment])
		was.Proxied = (was.Proxied*n + p.Proxied) / (n + 1)
		paths[r.Treatment] = was
		trials[r.Treatment]++
	}
	return paths
}

func pathOf(r *result.Record) Path {
	p := Path{Calls: r.Edges}
	sidecars, loadHas := 0, false // the load has one beside it
	services := map[string]bool{}
	for _, t := range r.Tasks {
		switch t.Plane {
		case metric.App:
			name := cmp.Or(t.Service, t.Pod)
			services[name] = true
		case metric.Data:
			p.Proxies++
			if isSidecar(t.Task) {
				sidecars++
			}
			loadHas = loadHas || besideLoad(t.Task)
		}
	}
	p.Services = len(services)
	if p.Proxied, p.Counted = countedProxied(r); p.Counted {
		return p
	}
	// Every call passes the sidecars of both ends, if every proxy is a sidecar.
	if p.Proxies > 0 && sidecars == p.Proxies && p.Calls > 0 {
		p.Proxied = float64(2 * p.Calls)
		if !loadHas {
			p.Proxied--
		}
	}
	return p
}

// sides are the points at which one side of a proxy counts requests. The first with a count is used: the proxy sent
// each request that it received, and its retries. Mesh definitions need only one of them.
var sides = [][]balance.Point{{balance.OutReceived, balance.OutSent}, {balance.InReceived, balance.InSent}, {balance.Gateway}, {balance.Waypoint}}

// countedProxied are the requests that proxies handled over the sent ones. It is false unless both sides of
// every sidecar with requests are counted: the sum of the others would be too low.
// Counters are read while nothing is in flight, so both are of the same requests.
func countedProxied(r *result.Record) (float64, bool) {
	if r.Balance == nil {
		return 0, false
	}
	flows := slices.DeleteFunc(slices.Clone(r.Balance.Flows), func(f balance.Flow) bool { return f.Unit != balance.Requests })
	handled, needed := handledRequests(flows)
	beside := map[string]bool{} // services with sidecars
	for _, t := range r.Tasks {
		switch {
		case t.Plane != metric.Data:
		case t.Role == "node-proxy": // it counts connections
			return 0, false
		case isSidecar(t.Task) && besideLoad(t.Task):
			beside[balance.LoadName] = true
		case isSidecar(t.Task) && t.Service != "":
			beside[t.Service] = true
			needed = append(needed, balance.Place{Service: t.Service, Point: balance.InReceived})
		}
	}
	sent, proxied := int64(0), int64(0)
	for _, f := range flows {
		if f.Point == balance.Sent && f.Service == balance.LoadName {
			if f.Unknown != "" {
				return 0, false
			}
			sent += f.Count
		}
		if f.Point == balance.Sent && beside[f.Service] {
			needed = append(needed, balance.Place{Service: f.Service, Point: balance.OutReceived, To: f.To})
		}
	}
	for _, at := range needed {
		_, one := handled[at]
		_, all := handled[balance.Place{Service: at.Service, Point: at.Point}] // of all called services
		if !one && !all {
			return 0, false
		}
	}
	for _, n := range handled {
		proxied += n
	}
	return float64(proxied) / float64(max(sent, 1)), sent > 0 && proxied > 0
}

func isSidecar(t mesh.Task) bool { return t.Role == "sidecar" || t.Container == "sidecar" }

func besideLoad(t mesh.Task) bool {
	return t.Component == string(metric.Load) || t.Pod == balance.LoadName
}

// handledRequests counts the requests of each side of a proxy, by its first point. It returns the sides with unknown
// counters too.
func handledRequests(flows []balance.Flow) (handled map[balance.Place]int64, unknown []balance.Place) {
	handled = map[balance.Place]int64{}
	for _, side := range sides {
		for _, point := range side {
			for _, f := range flows {
				at := balance.Place{Service: f.Service, Point: side[0], To: f.To}
				if _, ok := handled[at]; f.Point != point || ok {
					continue
				}
				if f.Unknown != "" {
					unknown = append(unknown, at)
				} else {
					handled[at] = f.Count - f.Retries
				}
			}
		}
	}
	return handled, unknown
}
