package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
)

// Progress is printed as one JSON line on stdout each second while a load runs.
type Progress struct {
	Second    int     `json:"second"` // from Start
	Phase     string  `json:"phase"`  // warm-up | measure | tail
	Intended  int64   `json:"intended"`
	Completed int64   `json:"completed"`        // in this second
	Errors    int64   `json:"errors"`           // in this second, every class but 2xx
	P50MS     float64 `json:"p50_ms,omitempty"` // absent if nothing ended in this second
	P99MS     float64 `json:"p99_ms,omitempty"`
}

// Line is one line of the engine's stdout: a progress line or, last, the report.
type Line struct {
	Progress *Progress `json:"progress,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	// Clock answers a [Question] that came before the profile.
	Clock *clock.Stamps `json:"clock,omitempty"`
	// Ready precedes all others of a profile with Hold: the connections are open.
	Ready bool `json:"ready,omitempty"`
}

// Begin comes on the engine's stdin after [Line.Ready], for a profile with Hold.
type Begin struct {
	Start time.Time `json:"start"`
}

// Question may come on the engine's stdin, any number of times, before the profile.
// Each is answered by a line with the clock.
type Question struct {
	Clock bool `json:"clock"`
}

// maxLine bounds one line of the engine's output, bytes. The distributions of a part
// of a load have some hundred kilobytes.
const maxLine = 16 << 20

// Lines reads the engine's output.
type Lines struct{ scan *bufio.Scanner }

// ErrNoReport is the error of an output that ends early.
var ErrNoReport = errors.New("load engine ended without a report")

// LastReport is the report at the end of the engine's whole output.
func LastReport(output []byte) (Report, error) {
	r, err := NewLines(bytes.NewReader(output)).Report(nil)
	if err != nil {
		return Report{}, err
	}
	return *r, nil
}

// NewLines reads lines from r.
func NewLines(r io.Reader) *Lines {
	l := &Lines{scan: bufio.NewScanner(r)}
	l.scan.Buffer(nil, maxLine)
	return l
}

// Report reads to the end and returns the report, which is the last line. progress,
// unless nil, is called for each progress line.
func (l *Lines) Report(progress func(Progress)) (*Report, error) {
	var report *Report
	for {
		line, err := l.Next()
		switch {
		case errors.Is(err, io.EOF) && report == nil:
			return nil, ErrNoReport
		case errors.Is(err, io.EOF):
			return report, nil
		case err != nil:
			return nil, err
		}
		if line.Progress != nil && progress != nil {
			progress(*line.Progress)
		}
		if line.Report != nil {
			report = line.Report
		}
	}
}

// Next reads the next line, and the error is io.EOF at the end.
func (l *Lines) Next() (Line, error) {
	for l.scan.Scan() {
		b := bytes.TrimSpace(l.scan.Bytes())
		if len(b) == 0 {
			continue
		}
		var line Line
		if err := json.Unmarshal(b, &line); err != nil {
			return Line{}, fmt.Errorf("read load engine's output %.60q: %w", b, err)
		}
		return line, nil
	}
	if err := l.scan.Err(); err != nil {
		return Line{}, fmt.Errorf("read load engine's output: %w", err)
	}
	return Line{}, io.EOF
}

// Clocks of several hosts that share one load: the offset of each from the process that
// starts them.

// Clock is the offset of one process's clock from the clock of the process that started it.
type Clock struct {
	AheadUS float64 `json:"ahead_us"` // its clock minus the other process's, µs
	// BoundUS is the maximum error of AheadUS, µs: half of the shortest round trip,
	// since its two directions may differ.
	BoundUS float64 `json:"bound_us"`
}

// Ahead is c.AheadUS as a duration.
func (c Clock) Ahead() time.Duration { return time.Duration(c.AheadUS * 1e3) }

// ClockOf is a Clock by its figures as durations.
func ClockOf(ahead, bound time.Duration) Clock {
	return Clock{AheadUS: float64(ahead) / 1e3, BoundUS: float64(bound) / 1e3}
}

// VersionHeader is the header of an answer with the version of the configuration that served it, and after a space the
// endpoint.
const VersionHeader = "x-tare-version"

// Versions numbers the values of [VersionHeader] that one worker has seen, from 1. 0 is an answer without the header.
type Versions struct {
	numbers map[string]int32
	Values  []string // by number
}

// maxVersions bounds the values: a server may send any.
const maxVersions = 1 << 16

// NewVersions returns an empty numbering.
func NewVersions() *Versions {
	return &Versions{numbers: map[string]int32{}, Values: []string{""}}
}

// Number returns the number of a value, 0 beyond the first 65,535.
func (v *Versions) Number(value []byte) int32 {
	n, known := v.numbers[string(value)]
	if !known && len(v.Values) < maxVersions {
		n = int32(len(v.Values))
		v.Values = append(v.Values, string(value))
		v.numbers[v.Values[n]] = n
	}
	return n
}
