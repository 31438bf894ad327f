package experiment

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/load/template"
)

// Think is a time drawn uniformly between two bounds, written 200ms or 100ms..500ms.
type Think struct{ Min, Max Duration }

// bound is the longest time.
func (t Think) bound() any { return t.Max }

const thinkForm = `^[0-9.]+[a-z]+(\.\.[0-9.]+[a-z]+)?$`

// Wants describes the text for messages.
func (Think) Wants() string { return "a time such as 200ms, or 100ms..500ms" }

// UnmarshalScalar reads a think time.
func (t *Think) UnmarshalScalar(text string) error {
	least, most, both := strings.Cut(text, "..")
	low, err := time.ParseDuration(least)
	high := low
	if both && err == nil {
		high, err = time.ParseDuration(most)
	}
	if err != nil || low < 0 || high < low || high == 0 {
		return fmt.Errorf("found %.40q, expected %s", text, t.Wants())
	}
	t.Min, t.Max = Duration(low), Duration(high)
	return nil
}

// MarshalText writes what UnmarshalScalar reads.
func (t Think) MarshalText() ([]byte, error) {
	if t.Min == t.Max {
		return []byte(t.Max.String()), nil
	}
	return []byte(t.Min.String() + ".." + t.Max.String()), nil
}

// UnmarshalText reads what MarshalText has written.
func (t *Think) UnmarshalText(text []byte) error { return t.UnmarshalScalar(string(text)) }

// users checks templates, cookies and think times.
func (v loadRules) users() {
	l := v.e.Load
	if v.doc.Has("load.think") {
		for i, r := range LevelsOf[RateLevel](v.e.Factors, "rate") {
			if r != (RateLevel{}) {
				v.report(fmt.Sprintf("factors.rate[%d]", i), "write rate: [max], or remove load.think",
					"load.think needs a closed loop: at a rate the schedule decides when requests are sent, and not the answers before them")
			}
		}
		if !v.doc.Has("factors.rate") {
			v.report("load.think", "write factors: {rate: [max]}", "load.think needs a closed loop")
		}
	}
	if l.Templates && len(l.Requests) == 0 {
		v.report("load.templates", "add load.requests with expressions", "there are no requests with expressions")
	}
	for i, r := range l.Requests {
		if l.Templates && r.GRPC != "" && template.Has(string(r.Body)) {
			v.report(fmt.Sprintf("load.requests[%d].body", i), "", "a message of gRPC is encoded, and cannot have expressions")
		}
	}
}

// LoadTemplates reads the files of the expressions. Nil means that braces are text.
func LoadTemplates(l *Load) (*template.Data, error) {
	if !l.Templates {
		return nil, nil
	}
	var r template.Reader
	var errs []error
	at := func(field string) strict.Position { return strict.Position{File: field, Line: 1, Column: 1} }
	headers := func(of map[string]string, field string) {
		for _, value := range of {
			errs = append(errs, r.Check(value, template.Header, at(field)))
		}
	}
	headers(l.Headers, "load.headers")
	for _, q := range l.Requests {
		errs = append(errs, r.Check(q.Path, template.URL, at("load.requests.path")), r.Check(string(q.Body), template.Body, at("load.requests.body")))
		headers(q.Headers, "load.requests.headers")
	}
	return r.Data(), errors.Join(errs...)
}
