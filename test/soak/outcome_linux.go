package main

import (
	"cmp"
	"maps"
	"slices"
)

// Outcome has the counts of one case.
type Outcome struct {
	Strand int  `json:"strand"`
	Case   int  `json:"case"`
	Done   bool `json:"done"`

	Attempts int            `json:"attempts"`
	Exits    map[string]int `json:"exits"`  // of tare, by disturbance and exit code
	Struck   map[string]int `json:"struck"` // signals that reached a process, by victim and signal
	Missed   int            `json:"missed"` // signals after the end of the attempt, or before its processes
	Limits   map[string]int `json:"limits"` // attempts by limit and whether it ended the attempt
	Again    int            `json:"again"`  // directories that had no plan yet and were made again

	Starved int `json:"starved"` // not judged: the machine gave too little CPU
	Trials  int `json:"trials"`  // recorded
	Valid   int `json:"valid"`
	Invalid int `json:"invalid"`
	Failed  int `json:"failed"`

	Verified   int         `json:"verified"` // directories, after each attempt
	Digests    int         `json:"digests"`  // files compared by tare verify
	Searches   int         `json:"searches"` // for remains
	Reports    int         `json:"reports"`  // tare report on the finished directory
	Repeated   int         `json:"repeated"` // plans made again from the experiment file
	Violations []Violation `json:"violations,omitempty"`
	Ends       []End       `json:"ends,omitempty"` // that no disturbance explains

	Samples []Sample `json:"samples,omitempty"` // of the long run
}

// Violation is a promise that tare did not keep.
type Violation struct {
	Strand  int    `json:"strand"`
	Case    int    `json:"case"`
	Attempt int    `json:"attempt"`
	What    string `json:"what"`
	Detail  string `json:"detail"`
}

func newOutcome(strand, number int) *Outcome {
	return &Outcome{Strand: strand, Case: number, Exits: map[string]int{}, Struck: map[string]int{}, Limits: map[string]int{}}
}

// maxDetail bounds the text of a violation in bytes.
const maxDetail = 4000

func (o *Outcome) violate(attempt int, what, detail string) {
	if len(detail) > maxDetail { // the reason is at the end
		detail = detail[:maxDetail/4] + "\n…\n" + detail[len(detail)-maxDetail*3/4:]
	}
	o.Violations = append(o.Violations, Violation{o.Strand, o.Case, attempt, what, detail})
}

// add sums counts.
func (o *Outcome) add(p *Outcome) {
	for _, f := range []struct{ to, from *int }{
		{&o.Attempts, &p.Attempts}, {&o.Missed, &p.Missed}, {&o.Again, &p.Again}, {&o.Starved, &p.Starved}, {&o.Trials, &p.Trials}, {&o.Valid, &p.Valid},
		{&o.Invalid, &p.Invalid}, {&o.Failed, &p.Failed}, {&o.Verified, &p.Verified}, {&o.Digests, &p.Digests},
		{&o.Searches, &p.Searches}, {&o.Reports, &p.Reports}, {&o.Repeated, &p.Repeated},
	} {
		*f.to += *f.from
	}
	for _, m := range []struct{ to, from map[string]int }{{o.Exits, p.Exits}, {o.Struck, p.Struck}, {o.Limits, p.Limits}} {
		for k, n := range m.from {
			m.to[k] += n
		}
	}
	o.Violations = append(o.Violations, p.Violations...)
	o.Ends = append(o.Ends, p.Ends...)
}

// sorted are the keys of counts, the most frequent first.
func sorted(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b))
	})
}
