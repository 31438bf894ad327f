// Package importer turns results that other tools left behind into results
// directories, so that old and foreign measurements are read by the same
// analysis as tare's own.
//
// Every importer reads files into a [Study] and touches nothing else; [Write]
// makes the directory. What a source does not hold stays absent. A file that
// cannot be trusted becomes a failed trial whose error names the file and the
// line: the others are imported, and no figure is guessed.
package importer

import (
	"sync/atomic"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
)

// Source is one kind of foreign results.
type Source struct {
	Name string
	Doc  string // one sentence
	// Read reads files and directories. Its error is for what stops the import as
	// a whole; an error of one trial is in that trial.
	Read func(paths []string, o Options) (*Study, error)
}

// Generators are the sources of load generators' own outputs, one a generator.
func Generators() []Source {
	var sources []Source
	for _, g := range generators {
		sources = append(sources, Source{g.name, g.doc, g.read})
	}
	return sources
}

// Options supply what the files lack. The zero value is the default.
type Options struct {
	// Warmup is cut from the time the load is first seen, and Tail before it is
	// last seen; negative: nothing is cut.
	Warmup, Tail time.Duration
	// Mesh is the level of the factor mesh; empty: the name of each file's directory.
	Mesh string
	// Rate is the intended rate, if the files lack it; 0: unknown.
	Rate float64
	// Corrected: latencies count from the intended start, as oha does
	// with --latency-correction and does not write down.
	Corrected bool

	memory *atomic.Int64 // bytes of originals that may still be kept in memory
}

// KeepOriginals returns o with room in memory for the originals of one import,
// so that they are read once.
func (o Options) KeepOriginals() Options {
	o.memory = new(atomic.Int64)
	o.memory.Store(maxOriginals)
	return o
}

// The Metrics API shows usage of up to two of its periods ago. With a period of
// up to 30 s, readings contain none of the start after a minute, and none of the
// end if the last 30 s are cut.
const (
	defaultWarmup = 60 * time.Second
	defaultTail   = 30 * time.Second
)

// Cuts are the warm-up and the tail to cut, with their defaults.
func (o Options) Cuts() (warmup, tail time.Duration) {
	pick := func(v, otherwise time.Duration) time.Duration {
		if v == 0 {
			return otherwise
		}
		return max(v, 0)
	}
	return pick(o.Warmup, defaultWarmup), pick(o.Tail, defaultTail)
}

// Study is the content of an import, before it is written.
type Study struct {
	Source      string
	Name        string // DNS label
	Description string
	Trials      []Trial // in the order in which they ran, where that is known
	// Meshes are the levels of mesh in the order in which the paths were given.
	Meshes  []string
	Skipped []string // files that were passed over, and why
}

// Trial is one run of the foreign tool.
type Trial struct {
	Mesh        string
	Rate        experiment.Rate // intended; [experiment.Max] in a closed loop
	RateKnown   bool
	Connections int // 0: unknown
	Replicas    int // 0: unknown
	Run         string
	Files       []string
	// Record lacks what the plan decides: identity, factors, block.
	Record result.Record
	// Latency is the interval log; nil: the source has no counts.
	Latency []byte

	// originals are those of Files that are in memory: they are copied as
	// read, and read once.
	originals map[string][]byte
}

// Failed counts the trials that could not be read and the trials that must not be used.
func (s *Study) Failed() (failed, invalid int) {
	for i := range s.Trials {
		switch r := &s.Trials[i].Record; {
		case r.Error != "":
			failed++
		case !r.Valid:
			invalid++
		}
	}
	return failed, invalid
}

// Invalidate adds a warning that makes the trial unusable.
func (t *Trial) Invalidate(code, message, hint string) {
	t.Record.Valid = false
	t.Record.Warnings = append(t.Record.Warnings, result.Warning{Code: code, Message: message, Hint: hint, Invalidates: true})
}

// Warn adds a warning about some metrics; none: about all.
func (t *Trial) Warn(code, message, hint string, metrics ...string) {
	t.Record.Warnings = append(t.Record.Warnings, result.Warning{Code: code, Message: message, Hint: hint, Metrics: metrics})
}

// Fail keeps the trial with its error alone.
func (t *Trial) Fail(err error) {
	r := &t.Record
	r.Valid, r.Error = false, err.Error()
	r.Sampled, r.Load, t.Latency = nil, nil, nil
}
