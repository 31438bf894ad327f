package generator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
)

// ohaTraits describes github.com/hatoo/oha. For an interval log it prints every answered request as CSV, which contains the
// measure window. Otherwise it prints a summary of the whole run.
var ohaTraits = traits{name: "oha", loop: loopOpen, closed: true, protocols: []string{"http1", "http2"},
	method: true, body: true, version: versionOf{"--version", `oha ([0-9][^\s]*)`},
	command: ohaCommand, parse: func(r io.Reader, p load.Profile) (Outcome, error) {
		if p.HDRPath != "" {
			return parseOhaCSV(r, p.Rate > 0)
		}
		return ParseOha(r, p.Rate > 0)
	}}

// ohaCommand enables oha's correction for coordinated omission.
func ohaCommand(t traits, p load.Profile) (proc.Command, error) {
	// By itself it asks for compressed answers, and many versions follow redirects: other load than asked for.
	args := []string{"--no-tui", "-c", strconv.Itoa(p.Connections), "-z", milliseconds(t.duration(p)), "-m", method(p), "--redirect", "0", "--disable-compression"}
	if p.Rate > 0 {
		args = append(args, "-q", decimal(math.Round(p.Rate)), "--latency-correction")
	}
	if p.Timeout > 0 {
		args = append(args, "-t", milliseconds(p.Timeout))
	}
	if protocol(p) == "http2" {
		args = append(args, "--http2")
	}
	if p.RequestSize > 0 {
		args = append(args, "-d", body(p))
	}
	if p.Workers > 0 {
		args = append(args, "--worker-threads", strconv.Itoa(p.Workers))
	}
	format := "json"
	if p.HDRPath != "" {
		format = "csv"
	}
	args = append(args, "--output-format", format)
	if p.Rate != math.Round(p.Rate) {
		return proc.Command{}, refused(t.name, "its rate is whole requests per second, not %v", p.Rate)
	}
	if h := host(p); h != "" {
		if protocol(p) == "http2" {
			return proc.Command{}, refused(t.name, "over HTTP/2 it sends the URL's host, not %s", h)
		}
		args = append(args, "--host", h)
	}
	return proc.Command{Args: append(args, p.Targets[0])}, nil
}

// ohaJSON is --output-format json, or --json, in seconds.
type ohaJSON struct {
	Summary *struct {
		Total          *float64 `json:"total"`
		Slowest        *float64 `json:"slowest"`
		Fastest        *float64 `json:"fastest"`
		Average        *float64 `json:"average"`
		RequestsPerSec *float64 `json:"requestsPerSec"`
		TotalData      *float64 `json:"totalData"`
	} `json:"summary"`
	Histogram            map[string]*float64 `json:"responseTimeHistogram"`
	Percentiles          map[string]*float64 `json:"latencyPercentiles"`
	FirstBytePercentiles map[string]*float64 `json:"firstBytePercentiles"`
	Statuses             map[string]*float64 `json:"statusCodeDistribution"`
	Errors               map[string]*float64 `json:"errorDistribution"`
}

// ohaDeadline is oha's error for requests that it aborts at the end of a run. They are not server errors.
const ohaDeadline = "aborted due to deadline"

// ParseOha reads oha's JSON, also as the Python repr of a dict (single quotes,
// None) or of bytes (b'…'). corrected reports that oha ran with
// --latency-correction, which the output does not contain.
func ParseOha(r io.Reader, corrected bool) (Outcome, error) {
	o := Outcome{Generator: "oha"}
	text, err := readAll(r, o.Generator)
	if err != nil {
		return o, err
	}
	if bytes.Contains(text[:min(len(text), 1024)], []byte("Success rate:")) {
		return o, hint.New("run oha with --output-format json", "read output of oha: it is a text, without the counts of its latencies")
	}
	var j ohaJSON
	if err := json.Unmarshal(fromPython(text), &j); err != nil {
		return o, fmt.Errorf("read output of oha: %w", err)
	}
	if j.Summary == nil {
		return o, fmt.Errorf("read output of oha: it has no summary")
	}
	o.Statuses, o.Errors = counts(j.Statuses), counts(j.Errors)
	o.AllRequests = new(sum(o.Statuses) + sum(o.Errors)) // as in oha's rate
	delete(o.Errors, ohaDeadline)
	o.Requests = new(sum(o.Statuses) + sum(o.Errors))
	if v := j.Summary.Total; v != nil {
		o.Elapsed = span(*v)
	}
	if v := j.Summary.RequestsPerSec; v != nil {
		o.Rate = asRate(*v)
	}
	if v := j.Summary.TotalData; v != nil {
		o.BytesIn = count(*v)
	}
	j.latency(corrected).addTo(&o)
	first := latencyOf(ofFirstByte)
	first.percentiles(j.FirstBytePercentiles)
	first.addTo(&o)
	return o, nil
}

func (j ohaJSON) latency(corrected bool) *distribution {
	d := latencyOf(ofService)
	if corrected {
		d.Of = ofResponse
	}
	d.summary(j.Summary.Fastest, j.Summary.Average, j.Summary.Slowest)
	d.percentiles(j.Percentiles)
	d.upTo(j.Histogram)
	d.Count = sum(counts(j.Statuses))
	return d
}

// percentiles reads {"p99.9": seconds}.
func (d *distribution) percentiles(m map[string]*float64) {
	for name, v := range m {
		q, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
		if err == nil && v != nil {
			d.quantile(q/100, *v)
		}
	}
}

// upTo reads {"seconds": count}. Each key is the upper bound of a bucket.
func (d *distribution) upTo(m map[string]*float64) {
	bounds := map[float64]int64{}
	var order []float64
	for name, v := range m {
		bound, err := strconv.ParseFloat(name, 64)
		if err != nil || math.IsNaN(bound) || math.IsInf(bound, 0) || v == nil || count(*v) == nil {
			continue
		}
		if _, twice := bounds[bound]; !twice {
			order = append(order, bound)
		}
		bounds[bound] = min(bounds[bound]+*count(*v), maxCount)
	}
	slices.Sort(order)
	for i, bound := range order {
		low := bound
		if i > 0 {
			low = order[i-1]
		}
		d.bucket(low, bound, bounds[bound])
	}
}

// ohaColumns counts the columns of oha's CSV:
// request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status.
// Times are in seconds from oha's start.
const ohaColumns = 7

// OhaCSVHeader begins oha's record of every answered request.
const OhaCSVHeader = "request-start,"

// parseOhaCSV reads oha's record of every answered request.
func parseOhaCSV(r io.Reader, corrected bool) (Outcome, error) {
	o := Outcome{Generator: "oha", Partial: true, Sized: true, Records: []Record{}}
	err := EachOhaRecord(r, corrected, func(rec Record) { o.Records = append(o.Records, rec) })
	return o, err
}

// EachOhaRecord calls each with every request of oha's CSV, without keeping them.
func EachOhaRecord(r io.Reader, corrected bool, each func(Record)) error {
	header := strings.TrimSuffix(OhaCSVHeader, ",")
	return eachRow(r, "oha", header, ohaColumns, func(row []string) error {
		var v [ohaColumns]float64
		for i, cell := range row {
			f, err := strconv.ParseFloat(cell, 64)
			if err != nil || math.IsNaN(f) || f < 0 || f > 1e9 && i != 5 || f > 1e15 {
				return fmt.Errorf("%.40q is no figure", cell)
			}
			v[i] = f
		}
		rec := Record{At: span(v[0]), Late: unknown, Service: span(v[4]), Response: unknown, Code: int(min(v[6], 999)), Size: int64(min(v[5], maxSize))}
		rec.Done = rec.At + rec.Service
		if corrected {
			// The duration starts at the pacer, the delay of the first byte at the worker.
			rec.Response, rec.Service, rec.Done = rec.Service, unknown, rec.At+span(v[3])
		}
		each(rec)
		return nil
	})
}

// fromPython converts the Python repr of a JSON document back to JSON: bytes
// (b'…') or a dict (single quotes, None, True, False, nan, inf). It returns JSON
// and any other text unchanged, and the JSON decoder refuses the latter.
func fromPython(text []byte) []byte {
	text = bytes.TrimSpace(text)
	if n := len(text); n >= 3 && text[0] == 'b' && (text[1] == '\'' || text[1] == '"') && text[n-1] == text[1] {
		text = bytes.TrimSpace(unescapeBytes(text[2 : n-1]))
	}
	if len(text) == 0 || text[0] != '{' || !bytes.HasPrefix(bytes.TrimLeft(text[1:], " \t\r\n"), []byte("'")) {
		return text
	}
	return pythonTokens.ReplaceAllFunc(text, func(token []byte) []byte {
		if c := token[0]; c != '\'' && c != '"' {
			if as, ok := pythonWords[string(token)]; ok {
				return []byte(as)
			}
			return token
		}
		quoted, _ := json.Marshal(string(unescapeBytes(token[1 : len(token)-1]))) // of a string it cannot fail
		return quoted
	})
}

// pythonTokens are strings and words. Numbers and brackets are the same in both notations.
var pythonTokens = regexp.MustCompile(`'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?[A-Za-z]+`)

var pythonWords = map[string]string{
	"None": "null", "True": "true", "False": "false", "nan": "null", "NaN": "null", "inf": "null", "-inf": "null",
}

var pythonEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"'}

// escaped is an escape of a bytes literal.
var escaped = regexp.MustCompile(`(?s)\\(?:x[0-9A-Fa-f]{2}|.)`)

// unescapeBytes decodes the escapes of a bytes literal.
func unescapeBytes(b []byte) []byte {
	return escaped.ReplaceAllFunc(b, func(e []byte) []byte {
		if c, ok := pythonEscapes[e[1]]; ok {
			return []byte{c}
		}
		if n, err := strconv.ParseUint(string(e[2:]), 16, 8); e[1] == 'x' && err == nil {
			return []byte{byte(n)}
		}
		return e
	})
}
