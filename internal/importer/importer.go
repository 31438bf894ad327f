// Package importer converts results of other tools into results directories, so
// that tare's own analysis can read them.
//
// Every importer reads files into a [Study] and changes nothing else. [Write]
// creates the directory. Figures missing from the source stay absent. An invalid
// file becomes a failed trial whose error contains the file and the line. The
// others are imported, and no figure is guessed.
package importer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// Source is one kind of foreign results.
type Source struct {
	Name string
	Doc  string // one sentence
	// Read reads files and directories. Its error stops the whole import, but an
	// error of one trial is in that trial.
	Read func(paths []string, o Options) (*Study, error)
}

// Generators returns the sources for outputs of load generators and of benchmarks, one per program.
func Generators() []Source {
	return lists.Map(formats, func(f format) Source { return Source{f.name, f.doc, f.read} })
}

// Options supply what the files lack. The zero value is the default.
type Options struct {
	// Warmup is cut after the load is first seen, and Tail before it is last seen.
	// Negative means that nothing is cut.
	Warmup, Tail time.Duration
	// Mesh is the level of the factor mesh. Empty means the name of each file's directory.
	Mesh string
	// Rate is the intended rate, if the files lack it. 0 means unknown.
	Rate float64
	// Corrected is set if latencies count from the intended start. oha's
	// --latency-correction does this without recording it.
	Corrected bool

	memory *atomic.Int64 // bytes of originals that may still be kept
}

// KeepOriginals returns o with memory for the originals of one import, so that
// they are read once.
func (o Options) KeepOriginals() Options {
	o.memory = new(atomic.Int64)
	o.memory.Store(maxOriginals)
	return o
}

// Usage in the Metrics API is up to two of its periods old. With a period of up
// to 30 s, readings after a minute do not contain the start. Without the last 30
// s, readings do not contain the end.
const (
	defaultWarmup = 60 * time.Second
	defaultTail   = 30 * time.Second
)

// Cuts returns the warm-up and the tail to cut, with their defaults.
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
	Trials      []Trial // in run order, if known
	// Meshes are the levels of mesh in the order of the paths.
	Meshes  []string
	Skipped []string // skipped files and the reasons
}

// Trial is one run of the other tool.
type Trial struct {
	Mesh        string
	Application string          // of programs that end, which have no mesh
	Rate        experiment.Rate // intended, or [experiment.Max] in a closed loop
	RateKnown   bool
	RateNamed   bool // only a name of a file or directory contains Rate
	Connections int  // 0: unknown
	Replicas    int  // 0: unknown
	Run         string
	Files       []string
	// Record lacks the fields that the plan sets: identity, factors, block.
	Record result.Record
	// Latency is the interval log. Nil means that the source has no counts.
	Latency []byte

	sent float64 // requests per second that were sent
	logs int     // outputs of load generators

	// originals are the contents of Files in memory, copied as read.
	originals map[string][]byte
}

// Failed returns the numbers of unreadable trials and of unusable trials.
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

// Warn adds a warning about some metrics. Without any it is about all.
func (t *Trial) Warn(code, message, hint string, metrics ...string) {
	t.Record.Warnings = append(t.Record.Warnings, result.Warning{Code: code, Message: message, Hint: hint, Metrics: metrics})
}

// Fail reduces the trial to its error.
func (t *Trial) Fail(err error) {
	r := &t.Record
	r.Valid, r.Error = false, err.Error()
	r.Sampled, r.Load, r.Executions, t.Latency = nil, nil, nil, nil
}

// Amount parses a quantity that cannot be negative.
func Amount(s string, units map[string]float64) (float64, error) {
	v, err := generator.Quantity(s, units)
	if err == nil && (v < 0 || math.Signbit(v)) {
		return 0, fmt.Errorf("%.40q is negative", s)
	}
	return v, err
}

// Suffixes of Kubernetes quantities for cores and bytes.
var (
	CPUUnits    = map[string]float64{"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1}
	MemoryUnits = map[string]float64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "": 1}
)

// TimeLayout is the layout of times without a zone, as kubectl scripts print them.
const TimeLayout = "2006-01-02 15:04:05"

// Limits of one cell. They reveal a shifted or damaged file.
const (
	MaxCores  = 1e6
	MaxMemory = 1 << 60 // bytes
	MaxRows   = 1 << 20 // per file
)

var errNumber = errors.New("not a number")

// Number parses a finite decimal number. Go's own parser also accepts NaN,
// infinities, hexadecimal and underscores, which no tool prints.
func Number(s string) (float64, error) {
	if s == "" || strings.ContainsAny(s, "xXpP_nNiI") {
		return 0, fmt.Errorf("%.40q is %w", s, errNumber)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%.40q is %w", s, errNumber)
	}
	return v, nil
}
