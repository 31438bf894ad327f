package answer

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
)

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
