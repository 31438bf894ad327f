package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"
)

// figures are the sums over all cases.
type figures struct {
	Seed     uint64    `json:"seed"`
	Schedule string    `json:"schedule"` // SHA-256 of the first cases: the same for the same seed
	Began    time.Time `json:"began"`
	Updated  time.Time `json:"updated"`
	Cases    int       `json:"cases"`
	Sum      *Outcome  `json:"sum"`

	Memory, Descriptors, Threads *Growth

	mu    sync.Mutex
	path  string
	cases map[[2]int]*Outcome // by strand and number
}

// sum adds the cases up.
func (f *figures) sum() {
	f.Updated, f.Cases, f.Sum = time.Now().UTC(), 0, newOutcome(0, 0)
	for _, k := range f.keys() {
		o := f.cases[k]
		f.Sum.add(o)
		if o.Done {
			f.Cases++
		}
		for _, g := range []struct {
			to **Growth
			of func(usage) float64
		}{
			{&f.Memory, func(u usage) float64 { return u.RSS }},
			{&f.Descriptors, func(u usage) float64 { return u.Descriptors }},
			{&f.Threads, func(u usage) float64 { return u.Threads }},
		} {
			if line, ok := growth(o.Samples, g.of); ok {
				*g.to = &line
			}
		}
	}
}

func (f *figures) write() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeLocked()
}

func (f *figures) writeLocked() error {
	f.sum()
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.path+".tmp", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(f.path+".tmp", f.path)
}

// print writes the figures as a table.
func (f *figures) print(w io.Writer) {
	s := f.Sum
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("time", "%v, seed %d, schedule %.12s", f.Updated.Sub(f.Began).Round(time.Second), f.Seed, f.Schedule)
	row("cases", "%d, %d starts of tare", f.Cases, s.Attempts)
	row("trials", "%d recorded: %d valid, %d invalid, %d failed", s.Trials, s.Valid, s.Invalid, s.Failed)
	for _, key := range sorted(s.Struck) {
		row("signals", "%d %s", s.Struck[key], key)
	}
	row("signals", "%d without a process at their moment", s.Missed)
	for _, key := range sorted(s.Limits) {
		row("limits", "%d %s", s.Limits[key], key)
	}
	for _, key := range sorted(s.Exits) {
		row("ends", "%d %s", s.Exits[key], key)
	}
	row("verified", "%d directories, %d digests, %d plans made again, %d reports", s.Verified, s.Digests, s.Repeated, s.Reports)
	row("searches for remains", "%d", s.Searches)
	for _, g := range []struct {
		name, unit string
		of         *Growth
	}{{"memory", "MiB", f.Memory}, {"descriptors", "", f.Descriptors}, {"threads", "", f.Threads}} {
		if g.of != nil {
			row(g.name+" of tare", "%.1f to %.1f %s; slope %+.3f [%+.3f, %+.3f] per 100 trials", g.of.First, g.of.Last, g.unit, g.of.Per100, *g.of.Low, *g.of.High)
		}
	}
	row("not judged", "%d without enough CPU", s.Starved)
	row("unexplained ends", "%d", len(s.Ends))
	for _, e := range s.Ends {
		row("", "strand %d, case %d, attempt %d, %s: %s after %.0f s: %s", e.Strand, e.Case, e.Attempt, e.Disturbance, e.State, e.Seconds, e.Reason)
	}
	row("violations", "%d", len(s.Violations))
	for _, v := range s.Violations {
		row("", "strand %d, case %d, attempt %d: %s", v.Strand, v.Case, v.Attempt, v.What)
	}
	_ = t.Flush()
}
