package answer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Cost is the cost of the treatments in cores, memory and money.
type Cost struct {
	Prices     Prices         `json:"prices"`
	Units      []UnitCost     `json:"units"`
	Scenarios  []ScenarioCost `json:"scenarios"`
	Traffic    []Traffic      `json:"zone_traffic,omitempty"` // if it has a price
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
	c.Traffic = r.zoneTraffic(records, p)
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
		return c.Difference
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
	APIVersion  string        `yaml:"apiVersion" json:"-" doc:"tare.dev/v1beta1"`
	Kind        string        `yaml:"kind" json:"-" doc:"Prices"`
	Currency    string        `yaml:"currency" json:"currency" doc:"three letters, such as USD"`
	Core        Price         `yaml:"core" json:"core" doc:"price of a core (vCPU)"`
	GiB         *Price        `yaml:"gib,omitempty" json:"gib,omitempty" doc:"price of a GiB of memory. Without it money is of CPU alone."`
	ZoneTraffic *TrafficPrice `yaml:"zoneTraffic,omitempty" json:"zone_traffic,omitempty" doc:"price of traffic between zones, which has a table of its own"`
	Scenarios   []Scenario    `yaml:"scenarios" json:"scenarios" doc:"loads to price. The report begins with the first one."`
}

// Price is the cost of one unit for a month of 730 hours.
type Price struct {
	Month  float64 `yaml:"month" json:"month" doc:"amount for 730 hours"`
	Source string  `yaml:"source" json:"source" doc:"origin of the price"`
	Date   Date    `yaml:"date" json:"date" doc:"day of the source, such as 2026-03-01"`
}

// TrafficPrice is the cost of one GiB from a zone to another.
type TrafficPrice struct {
	GiB    float64 `yaml:"gib" json:"gib" doc:"amount for a GiB from a zone to another, the sender's and the receiver's part together"`
	Source string  `yaml:"source" json:"source" doc:"origin of the price"`
	Date   Date    `yaml:"date" json:"date" doc:"day of the source"`
}

// Scenario is a rate, and over how many pods of the application it goes.
type Scenario struct {
	Name  string  `yaml:"name" json:"name" doc:"name in reports"`
	Rate  float64 `yaml:"rate" json:"rate" doc:"requests/s in all"`
	Pods  int     `yaml:"pods,omitempty" json:"pods,omitempty" doc:"pods of the application that share the rate. Without them the measured setup is copied as often as the rate needs."`
	Zones int     `yaml:"zones,omitempty" json:"zones,omitempty" doc:"zones over which the pods are spread evenly. Without them: as measured."`
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
	if t := p.ZoneTraffic; t != nil {
		checkAmount(doc, report, "zoneTraffic", "gib", "of a GiB", t.GiB, t.Source, t.Date)
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
		if s.Zones < 0 || s.Zones > 1000 {
			report(at+".zones", fmt.Sprintf("%d zones is not between 1 and 1000", s.Zones), "leave zones out for those of the measured pods")
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
	checkAmount(doc, report, at, "month", "of a month", p.Month, p.Source, p.Date)
}

// checkAmount checks the amount of a price, in a field of its own, with source and date.
func checkAmount(doc *strict.Document, report func(path, message, hint string), at, field, of string, amount float64, source string, date Date) {
	if !(amount >= 0) || math.IsInf(amount, 0) || amount > 1e9 || !doc.Has(at+"."+field) {
		report(at+"."+field, "no price "+of+" between 0 and 1e9 is given", "")
	}
	if source == "" {
		report(at+".source", "a price needs its source", "write the source of the price")
	}
	if date == "" {
		report(at+".date", "a price needs its date", "write the date of the source, such as 2026-03-01")
	}
}

// Traffic has the bytes between zones of a treatment in a scenario. Unknown figures are absent.
type Traffic struct {
	Scenario  string       `json:"scenario"`
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	// Hops between pods for one request at the entry: its calls, and one more for each that passes a waypoint or gateway.
	Hops int `json:"hops_per_request,omitempty"`
	// Bytes of a request at the entry with its answer, headers included, as the load counted them. Each hop is taken to carry as many.
	Bytes float64 `json:"bytes_per_hop,omitempty"`
	// Crossing is the share of hops between zones, 0..1.
	Crossing *float64 `json:"crossing,omitempty"`
	GiB      *float64 `json:"gib_per_month,omitempty"`
	Money    *float64 `json:"money_per_month,omitempty"`
	// Added is Money less the baseline's Money, absent for a baseline.
	Added *float64 `json:"added_money_per_month,omitempty"`
	// How is the source of Crossing, or the reason for its absence.
	How string `json:"how"`
}

// monthSeconds is 730 hours, as of a [Price].
const monthSeconds = 730 * 3600

// zoneTraffic prices the traffic between zones of all treatments, baselines included.
func (r *Report) zoneTraffic(records []result.Record, p Prices) (all []Traffic) {
	if p.ZoneTraffic == nil {
		return nil
	}
	hops := hopsByTreatment(records)
	for _, s := range p.Scenarios {
		first, money := len(all), map[string]float64{}
		for _, t := range r.Treatments {
			if t.Control {
				continue
			}
			h := hops[t.ID]
			if h == nil {
				h = &hopCount{}
			}
			x := Traffic{Scenario: s.Name, Treatment: t.ID, Factors: t.Factors, Hops: h.hops, Bytes: h.bytes()}
			x.Crossing, x.How = h.crossing(s)
			if x.Hops > 0 && x.Bytes > 0 && x.Crossing != nil {
				gib := s.Rate * monthSeconds * float64(x.Hops) * x.Bytes * *x.Crossing / (1 << 30)
				cost := gib * p.ZoneTraffic.GiB
				x.GiB, x.Money, money[t.ID] = &gib, &cost, cost
			}
			all = append(all, x)
		}
		for i, t := range all[first:] {
			base := r.baselineOf(t.Treatment)
			if without, known := money[base]; known && t.Money != nil {
				all[first+i].Added = new(*t.Money - without)
			}
		}
	}
	return all
}

// baselineOf is the ID of a treatment's baseline, empty for a baseline.
func (r *Report) baselineOf(treatment string) string {
	for _, t := range r.Treatments {
		if t.ID == treatment {
			return t.Baseline
		}
	}
	return ""
}

// hopCount sums up the calls of a treatment's valid trials.
type hopCount struct {
	hops              int // 0: unknown, or different from trial to trial
	carried, answered int64
	pods              map[string]float64 // of the application, by zone
	unplaced          bool               // the zone of a pod is not known
	trials            int
}

func hopsByTreatment(records []result.Record) map[string]*hopCount {
	all := map[string]*hopCount{}
	for i := range records {
		r := &records[i]
		h := all[r.Treatment]
		if h == nil {
			h = &hopCount{pods: map[string]float64{}}
			all[r.Treatment] = h
		}
		if r.Error != "" || !r.Valid || r.Load == nil {
			continue
		}
		hops := hopsOf(r)
		if h.trials++; h.trials == 1 {
			h.hops = hops
		} else if h.hops != hops {
			h.hops = 0
		}
		h.carried, h.answered = h.carried+r.Load.BytesIn+r.Load.BytesOut, h.answered+r.Load.Completed
		seen := map[string]bool{}
		for _, t := range r.Tasks {
			if id := t.Namespace + "/" + t.Pod; t.Plane == metric.App && !seen[id] {
				seen[id] = true
				h.pods[t.Zone]++
				h.unplaced = h.unplaced || t.Zone == ""
			}
		}
	}
	return all
}

// hopsOf counts the hops of a request. A call through a proxy in a pod of its own has two.
func hopsOf(r *result.Record) int {
	hops, waypoint, gateway := r.Edges, false, false
	for _, t := range r.Tasks {
		waypoint = waypoint || t.Plane == metric.Data && t.Role == roleWaypoint
		gateway = gateway || t.Plane == metric.Data && t.Role == roleGateway
	}
	if hops == 0 {
		return 0
	}
	if waypoint {
		hops += r.Edges
	}
	if gateway { // before the entry
		hops++
	}
	return hops
}

// Roles of proxies in pods of their own, as mesh definitions name them.
const (
	roleWaypoint = "waypoint"
	roleGateway  = "gateway"
)

// bytes of a request and its answer, 0 if not counted.
func (h *hopCount) bytes() float64 {
	if h.answered == 0 {
		return 0
	}
	return float64(h.carried) / float64(h.answered)
}

// crossing returns the share of hops between zones. The zones are the scenario's, or else the measured pods'. Each
// pod is taken to receive the same share of calls, as Services and meshes balance without preference for a zone.
func (h *hopCount) crossing(s Scenario) (*float64, string) {
	if s.Zones > 0 {
		return new(1 - 1/float64(s.Zones)), fmt.Sprintf("pods spread evenly over %d zones", s.Zones)
	}
	if h.unplaced || len(h.pods) == 0 {
		return nil, "the zones of the pods are unknown: set zones in the scenario"
	}
	all, same := 0.0, 0.0
	for _, n := range h.pods {
		all += n
	}
	for _, n := range h.pods {
		same += n / all * n / all
	}
	return new(1 - same), fmt.Sprintf("pods as measured, number of zones: %d", len(h.pods))
}
