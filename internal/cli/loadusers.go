package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/template"
)

// addUsers sets the think time.
func (f *loadFlags) addUsers(p *load.Profile) error {
	if f.think == "" {
		return nil
	}
	var t experiment.Think
	err := t.UnmarshalScalar(f.think)
	p.Think = &load.Think{Min: time.Duration(t.Min), Max: time.Duration(t.Max)}
	if err != nil {
		return fmt.Errorf("--think: %w", err)
	}
	if p.Rate > 0 || len(p.Segments) > 0 {
		return errors.New("--think needs a closed loop, without --rate: with a rate the schedule decides when requests are sent, and not the answers before them")
	}
	return nil
}

// compile checks the expressions of the flags, whose positions are those in the flag. Those of a
// file of requests were checked as it was read.
func (f *loadFlags) compile(p *load.Profile) error {
	r := f.texts()
	if r == nil {
		return nil
	}
	at := func(name string) strict.Position { return strict.Position{File: name, Line: 1, Column: 1} }
	var errs []error
	for i, raw := range p.Targets {
		if i >= len(p.Calls) || p.Calls[i].Method == "" && p.Calls[i].Body == nil && p.Calls[i].Headers == nil { // a URL of the command line
			origin, rest := load.SplitOrigin(raw)
			where := at("URL")
			where.Column += len(origin)
			errs = append(errs, r.Check(rest, template.URL, where))
		}
	}
	for _, h := range p.Headers {
		errs = append(errs, r.Check(h, template.Header, at("--header")))
	}
	if f.bodyName != "" {
		errs = append(errs, r.Check(string(p.Body), template.Body, at(f.bodyName)))
	}
	p.Template = r.Data()
	return errors.Join(errs...)
}

// texts reads the files of expressions. Nil means that braces are text.
func (f *loadFlags) texts() *template.Reader {
	if f.templates && f.reader == nil {
		f.reader = &template.Reader{}
	}
	return f.reader
}
