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
	"bytes"
	"fmt"
	"io"
	"os"
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
	// a whole; what is wrong with one trial is in that trial.
	Read func(paths []string, o Options) (*Study, error)
}

// Sources lists every kind of results that can be imported.
func Sources() []Source {
	sources := []Source{
		{"great-sidecar-debate", "sequences of the Great Sidecar Debate: {rate}-{run}-metrics.csv with wrk2 or oha logs", readDebate},
		{"uds-core", "resource-usage.log with its vegeta results, one directory {rate}_{replicas} a run", readUDS},
	}
	for _, g := range generators {
		sources = append(sources, Source{g.name, g.doc, g.read})
	}
	return sources
}

// Lookup finds a source by its name.
func Lookup(name string) (Source, bool) {
	for _, s := range Sources() {
		if s.Name == name {
			return s, true
		}
	}
	return Source{}, false
}

// Options say what the files do not. The zero value is the default.
type Options struct {
	// Warmup is cut from the time the load is first seen, and Tail before it is
	// last seen; negative: nothing is cut.
	Warmup, Tail time.Duration
	// Mesh is the level of the factor mesh; empty: the name of each file's directory.
	Mesh string
	// Rate is what was asked for, where the files do not say; 0: unknown.
	Rate float64
	// Corrected says that latencies count from the intended start, which oha does
	// with --latency-correction and does not write down.
	Corrected bool

	memory *atomic.Int64 // bytes of originals that may still be kept in memory
}

// The Metrics API shows what was used up to two of its periods ago: with a
// period of up to 30 s, readings that still hold some of the start are over
// after a minute, and the tail is clear of the end after half of that.
const (
	defaultWarmup = 60 * time.Second
	defaultTail   = 30 * time.Second
)

func (o Options) cuts() (warmup, tail time.Duration) {
	pick := func(v, otherwise time.Duration) time.Duration {
		if v == 0 {
			return otherwise
		}
		return max(v, 0)
	}
	return pick(o.Warmup, defaultWarmup), pick(o.Tail, defaultTail)
}

// Study is what an import found, before it is written.
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
	Rate        experiment.Rate // asked; [experiment.Max] in a closed loop
	RateKnown   bool
	Connections int // 0: unknown
	Replicas    int // 0: unknown
	Run         string
	Files       []string
	// Record lacks what the plan decides: identity, factors, block.
	Record result.Record
	// Latency is the interval log; nil: the source has no counts.
	Latency []byte

	// originals are those of Files that are in memory: what is kept of them is then
	// what was read, and they are read once.
	originals map[string][]byte
}

// Failed counts the trials that could not be read and Invalid those that must not be used.
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

// invalidate adds a warning that makes the trial unusable.
func (t *Trial) invalidate(code, message, hint string) {
	t.Record.Valid = false
	t.Record.Warnings = append(t.Record.Warnings, result.Warning{Code: code, Message: message, Hint: hint, Invalidates: true})
}

// warn adds a warning about some metrics; none: about all.
func (t *Trial) warn(code, message, hint string, metrics ...string) {
	t.Record.Warnings = append(t.Record.Warnings, result.Warning{Code: code, Message: message, Hint: hint, Metrics: metrics})
}

// FileError is a foreign file that cannot be trusted.
type FileError struct {
	Path string
	Line int // from 1; 0: the file as a whole
	Err  error
	Help string
}

func (e *FileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("read %s:%d: %v", e.Path, e.Line, e.Err)
	}
	return fmt.Sprintf("read %s: %v", e.Path, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// Hint says what the user can do.
func (e *FileError) Hint() string { return e.Help }

// InvalidFile marks the error as a mistake in a file, not a failure of tare.
func (*FileError) InvalidFile() {}

// maxFile bounds a file that is read whole. An hour at 1 Hz of the widest CSV
// known has 4 MiB; raw results of load generators are read as streams.
const maxFile = 256 << 20

// maxOriginals bounds the originals of an import that are kept in memory until they are written.
const maxOriginals = 64 << 20

// read reads a file of the trial, and keeps what it reads as far as there is room.
func (t *Trial) read(path string, o Options) ([]byte, error) {
	b, err := readWhole(path)
	if err != nil || o.memory == nil || len(b) > maxCopy {
		return b, err
	}
	if o.memory.Add(-int64(len(b))) < 0 {
		return b, nil
	}
	if t.originals == nil {
		t.originals = map[string][]byte{}
	}
	t.originals[path] = b
	return b, nil
}

// readWhole reads a file of bounded size.
func readWhole(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	defer f.Close()
	var size int64
	if info, err := f.Stat(); err == nil {
		size = min(info.Size(), maxFile)
	}
	whole := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = whole.ReadFrom(io.LimitReader(f, maxFile+1))
	b := whole.Bytes()
	switch {
	case err != nil:
		return nil, &FileError{Path: path, Err: err}
	case len(b) > maxFile:
		return nil, &FileError{Path: path, Err: fmt.Errorf("it has more than %d MiB", maxFile>>20)}
	}
	return b, nil
}
