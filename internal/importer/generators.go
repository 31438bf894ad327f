package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// format reads the outputs of one program, one file per run.
type format struct {
	name, doc string
	parse     func(r io.Reader, corrected bool) (generator.Outcome, error)
	// executions reads programs that end, in place of parse.
	executions func([]byte) ([]executed, error)
	records    *recordFormat // of outputs with every request, which are recognized by their beginning
	// once occur exactly once in a complete output that begins with head.
	once []string
	head string
	// loop and arrivals are set if the generator has only one kind.
	loop, arrivals string
	failures       bool     // latencies of its summaries include failed requests
	marks          []string // each occurs in outputs of this generator, and not in those of the rows below
	fields         []string // one of them occurs in each output that is one JSON value
}

// formats are in the order of the help.
var formats = []format{
	{name: "fortio", doc: "JSON of fortio load -json", parse: plain(generator.ParseFortio), failures: true, marks: []string{`"DurationHistogram"`}, fields: []string{`"DurationHistogram"`, `"RunType"`}},
	{name: "oha", doc: "JSON of oha, also as Python printed it, or its CSV", parse: generator.ParseOha, marks: []string{`"latencyPercentiles"`, "  Success rate:"}, fields: []string{`"latencyPercentiles"`, `"summary"`},
		records: &recordFormat{heads: []string{generator.OhaCSVHeader}, each: generator.EachOhaRecord, omits: true}},
	{name: "vegeta", doc: "results of vegeta attack (gob or JSON), or its report as JSON or text", parse: plain(generator.ParseVegeta), marks: []string{"[total, rate", `{"latencies":{"total":`, `{"attack":`},
		head: "Requests ", once: []string{"[total, rate", "Latencies ", "Status Codes ", "Error Set:"}, loop: "open", arrivals: "constant", failures: true, fields: []string{`"latencies"`, `"timestamp"`, `"latency"`}},
	{name: "wrk2", doc: "text of wrk2 --latency", parse: plain(generator.ParseWrk2), once: []string{"Running ", "requests in ", "Requests/sec:"}, loop: "open", arrivals: "constant", marks: []string{"Thread calibration:", "  Detailed Percentile spectrum:"}},
	{name: "wrk", doc: "text of wrk --latency", parse: plain(generator.ParseWrk), once: []string{"Running ", "requests in ", "Requests/sec:"}, loop: "closed", marks: []string{"  Thread Stats "}},
	{name: "k6", doc: "JSON of k6: --out json, --summary-export, or the data of handleSummary as JSON", parse: plain(generator.ParseK6), failures: true, marks: []string{`"http_reqs"`, "http_reqs.."}, fields: []string{`"http_reqs"`, `"metrics"`},
		records: &recordFormat{heads: []string{`{"type":`, `{"metric":`}, each: generator.EachK6Record, day: true}},
	{name: "hyperfine", doc: "programs that end: hyperfine --export-json", executions: readHyperfine, marks: []string{`"exit_codes"`}, fields: []string{`"results"`}},
	{name: "gobench", doc: "programs that end: text of go test -bench, appended outputs too", executions: readBenchmarks, marks: []string{" ns/op"}},
}

// searched is how much of the beginning and of the end of a file are searched for marks.
const searched = 1 << 20

// programOf returns the generator that an output is of, "" if unknown.
func programOf(b []byte) string {
	f, found := lists.First(formats, func(f format) bool { return f.recordsOf(b) != nil })
	if !found {
		begin, end := b[:min(len(b), searched)], b[max(0, len(b)-searched):]
		marks := func(mark string) bool {
			return bytes.Contains(begin, []byte(mark)) || bytes.Contains(end, []byte(mark))
		}
		f, _ = lists.First(formats, func(f format) bool { return slices.ContainsFunc(f.marks, marks) })
	}
	return f.name
}

// foreign returns an error for an output of another program.
func (f format) foreign(path string, b []byte) error {
	e := &FileError{Path: path}
	program := programOf(b)
	if what, tip := regular.ForeignFormat("", b[:min(len(b), 4096)]); program == "" && what != "" {
		e.Err, e.Text = fmt.Errorf("this is %s, and no output of a load generator", what), tip
		return e
	}
	if program == "" || program == f.name || strings.HasPrefix(program, "wrk") && strings.HasPrefix(f.name, "wrk") { // the reader tells these two apart
		return nil
	}
	e.Err, e.Text = fmt.Errorf("this is an output of %s, not of %s", program, f.name), "tare import "+program
	return e
}

// plain adapts readers that do not need the flag.
func plain(parse func(io.Reader) (generator.Outcome, error)) func(io.Reader, bool) (generator.Outcome, error) {
	return func(r io.Reader, _ bool) (generator.Outcome, error) { return parse(r) }
}

// formatOf returns the format of a generator. One without a name reads nothing.
func formatOf(generator string) format {
	f, _ := lists.First(formats, func(f format) bool { return f.name == generator })
	return f
}

// read creates a trial from every file.
func (f format) read(paths []string, o Options) (*Study, error) {
	s := &Study{Source: f.name, Name: "imported-" + f.name, Description: "Imported: results of " + f.name + "."}
	files, err := s.ListFiles(paths)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(filepath.Dir(a), filepath.Dir(b)) })
	wrote := ""
	files = slices.DeleteFunc(files, func(path string) bool {
		other := ""
		if len(paths) > 1 || paths[0] != path { // a single file is read, whatever its name
			other = f.other(path)
		}
		if other != "" {
			s.Skipped = append(s.Skipped, path+": it is "+other)
			wrote = cmp.Or(wrote, hint.Of(f.foreign(path, head(path))))
		}
		return other != ""
	})
	meshes := meshesOfFiles(files)
	for _, path := range files {
		for _, t := range f.trials(path, meshes[path], o) {
			s.Meshes = lists.Add(s.Meshes, t.Mesh)
			s.Trials = append(s.Trials, t)
		}
	}
	if len(s.Trials) == 0 {
		e := &FileError{Path: strings.Join(paths, ", "), Hinted: hint.Hinted{Err: errors.New("no file found")}}
		if s.Skipped != nil {
			e.Err, e.Text = fmt.Errorf("no output of %s: %s", f.name, printable.Listed(s.Skipped, 3)), wrote
		}
		return nil, e
	}
	if f.executions != nil {
		s.nameApplications()
	}
	s.CheckRates()
	s.checkCopies()
	if !slices.ContainsFunc(s.Trials, func(t Trial) bool { return t.Record.Error == "" && t.Record.Started.IsZero() }) {
		slices.SortStableFunc(s.Trials, func(a, b Trial) int { return a.Record.Started.Compare(b.Record.Started) })
		s.CheckOverlap()
	}
	return s, nil
}

// other describes a file beside outputs that is none, "" for an output.
func (f format) other(path string) string {
	start := head(path)
	if f.recordsOf(start) != nil {
		return ""
	}
	if e, ok := f.foreign(path, start).(*FileError); ok && e != nil {
		return strings.TrimPrefix(strings.TrimSuffix(e.Err.Error(), ", and no output of a load generator"), "this is ")
	}
	name, _ := regular.ForeignFormat(path, start)
	return cmp.Or(name, f.foreignJSON(path))
}

// number is a run number, a time or a rate in the name of a file.
var number = regexp.MustCompile(`(?i)(^|[-_. ])(run|rep|repeat|round|trial|try|loop|r|v)?[-_ ]?[0-9]+(s|m|rps|qps)?`)

// treatmentIn is the name of a file without its extensions and numbers.
func treatmentIn(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	return strings.Trim(number.ReplaceAllString(name, "$1"), "-_. ")
}

// meshesOfFiles returns the mesh of each file. It is the directory's name, where files are in several directories. Files of one
// directory whose names differ by more than numbers are of different meshes: with.json, without.json.
func meshesOfFiles(files []string) map[string]string {
	byDir := MeshesOf(lists.Map(files, filepath.Dir))
	meshes, names, dirs := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, path := range files {
		meshes[path] = byDir[filepath.Dir(path)]
		names[treatmentIn(path)], dirs[filepath.Dir(path)] = true, true
	}
	if len(dirs) == 1 && len(names) > 1 && !names[""] {
		for _, path := range files {
			meshes[path] = treatmentIn(path)
		}
	}
	return meshes
}

// maxSearched is the max size of a JSON file in which the marks of a format are searched.
const maxSearched = 16 << 20

// foreignJSON describes complete JSON that has no mark of the format, such as a package.json beside results. JSON that was
// cut off may be a result.
func (f format) foreignJSON(path string) string {
	start := bytes.TrimSpace(head(path))
	if len(start) == 0 || start[0] != '{' && start[0] != '[' ||
		f.recordsOf(start) != nil {
		return ""
	}
	b, err := regular.ReadFile(path, maxSearched)
	if err != nil || !json.Valid(b) || slices.ContainsFunc(f.fields, func(mark string) bool { return bytes.Contains(b, []byte(mark)) }) {
		return ""
	}
	return "JSON, and not a result of " + f.name
}

// head is the beginning of a file, empty if it cannot be read.
func head(path string) []byte {
	f, err := openFile(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 4096))
	return b
}

// rateInName matches a rate and a run number at the start of a file name:
// 600-2….
var rateInName = regexp.MustCompile(`^(\d+)-(\d+)\b`)

func (f format) trial(path, mesh string, o Options) Trial {
	t := Trial{Mesh: cmp.Or(o.Mesh, mesh), Run: path, Files: []string{path}}
	t.Record.Valid = true
	if err := t.output(f.name, path, o); err != nil {
		t.Record.Valid, t.Record.Error = false, printable.Translate(err.Error())
	}
	return t
}

func (t *Trial) output(generator, path string, o Options) error {
	out, err := readOutput(generator, path, o)
	if err != nil {
		return err
	}
	t.asked(out, o, filepath.Base(path))
	return t.Take([]*Output{out})
}

// readOutput reads the output of a load generator. A record of every request is read
// in parts: it has 100 bytes a request.
func readOutput(generator, path string, o Options) (*Output, error) {
	out, err := streamOutput(generator, path, o.Corrected)
	if out != nil || err != nil {
		return out, err
	}
	b, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	return ParseOutput(generator, path, b, o.Corrected)
}

// readWhole reads a file, packed or not.
func readWhole(path string) ([]byte, error) {
	b, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	if r, err := unpacked(bufio.NewReader(bytes.NewReader(b))); err != nil {
		return nil, fileError(path, err)
	} else if b, err = io.ReadAll(io.LimitReader(r, maxFile+1)); err != nil || len(b) > maxFile {
		return nil, fileError(path, cmp.Or(err, fmt.Errorf("its content has more than %d MiB", maxFile>>20)))
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, &FileError{Path: path, Hinted: hint.Hinted{Err: errors.New("the file is empty")}}
	}
	return b, nil
}

// asked sets the intended rate from the output, else the options, else the file
// name.
func (t *Trial) asked(out *Output, o Options, name string) {
	rate := cmp.Or(out.Rate, o.Rate)
	if m := rateInName.FindStringSubmatch(name); rate == 0 && m != nil && out.Loop != "closed" {
		rate, _ = strconv.ParseFloat(m[1], 64) // digits only
	}
	t.RateNamed = out.Rate != rate && o.Rate != rate
	out.Rate = rate
	switch {
	case rate > 0:
		t.Rate, t.RateKnown = experiment.Rate(rate), true
		out.Loop = cmp.Or(out.Loop, "open")
	case out.Loop == "closed":
		t.Rate, t.RateKnown = experiment.Max, true
	default:
		t.Warn("loop-unknown", fmt.Sprintf("%s does not contain the intended rate, if there was one", out.path), "give it with --rate")
	}
}

// Take merges the outputs of one run into the trial's load.
func (t *Trial) Take(outs []*Output) error {
	l, log, warnings, err := pool(outs)
	if err != nil {
		return err
	}
	t.Record.Load, t.Latency, t.Connections = &l, log, l.Connections
	t.logs, t.sent = len(outs), lists.Sum(outs, func(o *Output) float64 { return o.sent })
	if t.Record.Started.IsZero() {
		t.Record.Started, t.Record.Ended = l.Start, l.End
	}
	if len(l.Classes) > 0 && l.Classes["2xx"] == 0 {
		t.Invalidate("no-success", fmt.Sprintf("no request of %s succeeded: %s", t.Run, l.FailureText()), "check that the server ran, and leave this run out")
	}
	for _, w := range warnings {
		t.Record.Warnings = append(t.Record.Warnings, w)
		t.Record.Valid = t.Record.Valid && !w.Invalidates
	}
	if l.Loop == "open" && outs[0].latency.Of == service {
		t.Warn("latency-from-send", outs[0].generator+" counts from the actual send: how long a request waited to be sent is in none of its latencies",
			"read service_ms; latency_ms, from the intended start, is unknown", metric.Latency, metric.ServiceTime)
	}
	return nil
}

// requests adds up a generator's record of every request. It keeps 16 bytes of each.
type requests struct {
	n           int
	first, last time.Duration // sends
	end         time.Duration // of the last response
	responses   bool          // latencies are response times
	sized       bool          // the output has the sum of bytes
	took        []time.Duration
	marks       []uint64 // a hash of each request
	statuses    map[string]int64
}

// recordFormat is an output with every request, which is read in parts.
type recordFormat struct {
	heads []string
	each  func(r io.Reader, corrected bool, each func(generator.Record)) error
	day   bool // times are since 1970
	omits bool // requests without a response
}

// streamOutput reads a record of every request without the whole file in memory. Nil means that it is none.
func streamOutput(name, path string, corrected bool) (*Output, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := unpacked(bufio.NewReader(f))
	if err != nil {
		return nil, fileError(path, err)
	}
	head, _ := r.Peek(headBytes) // a short file has less
	records := formatOf(name).recordsOf(head)
	if records == nil {
		return nil, nil
	}
	return records.read(r, name, path, corrected)
}

// headBytes is how much of a file shows its format.
const headBytes = 512

// recordsOf returns the format of every request if head begins as it does, else nil.
func (f format) recordsOf(head []byte) *recordFormat {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	if f.records == nil || !slices.ContainsFunc(f.records.heads, func(h string) bool { return bytes.HasPrefix(head, []byte(h)) }) {
		return nil
	}
	return f.records
}

func (f *recordFormat) read(r io.Reader, name, path string, corrected bool) (*Output, error) {
	o := newOutput(format{}, path)
	o.generator = name
	var c requests
	err := f.each(r, corrected, func(r generator.Record) { c.add(o, r) })
	if err == nil {
		err = c.finish(o)
	}
	if err == nil {
		err = o.count(generator.Outcome{Records: []generator.Record{}}) // all are counted
	}
	if err != nil {
		return nil, damaged(path, 0, name, err)
	}
	o.latency.Source = path
	if f.day {
		o.started = time.Unix(0, int64(c.first)).UTC()
	}
	if f.omits {
		o.warn("source-note", name+" omits requests without a response from this output: failures and their causes are unknown", "", metric.ErrorRatio)
	}
	return o, nil
}

// seed is shared by all marks, so that equal requests have equal marks.
var seed = maphash.MakeSeed()

func (c *requests) add(o *Output, r generator.Record) {
	if c.n++; c.n == 1 {
		c.first, c.last, c.responses, c.statuses = r.At, r.At, r.Response >= 0, map[string]int64{}
	}
	c.first, c.last, c.end = min(c.first, r.At), max(c.last, r.At), max(c.end, r.Done)
	c.marks = append(c.marks, maphash.Comparable(seed, r))
	switch {
	case r.Code == 0 && !r.Passed && (!r.Failed || r.Error != ""):
		o.errors[cmp.Or(r.Error, "no answer")]++
		return
	case r.Passed || r.Code/100 == 2 && !r.Failed:
		o.classes["2xx"]++
		v := r.Service
		if c.responses {
			v = r.Response
		}
		if v >= 0 {
			c.took = append(c.took, v)
		}
	default:
		o.classes["status"]++
	}
	if r.Size > 0 && !c.sized {
		o.bytesIn += r.Size
	}
	switch {
	case r.Code > 0:
		c.statuses[strconv.Itoa(r.Code)]++
	case r.Failed:
		c.statuses["failed check"]++
	}
	o.requests++
}

// finish sets the figures of the output that need all requests.
func (c *requests) finish(o *Output) error {
	if c.n == 0 {
		return errors.New("it has no request")
	}
	if n := c.doubled(); n > 1 && n > c.n/10 {
		return fmt.Errorf("%d of its %d requests occur twice, to the nanosecond: files were joined", n, c.n)
	}
	o.latency = result.Latency{Of: service, Count: int64(len(c.took))}
	if c.responses {
		o.latency.Of = response
	}
	o.statuses = c.statuses
	if o.Seconds <= 0 {
		o.Seconds = (c.end - c.first).Seconds()
	}
	if c.last > c.first { // a time that lacks one interval
		o.sent = float64(c.n-1) / (c.last - c.first).Seconds()
	}
	slices.Sort(c.took)
	for i := 0; i < len(c.took); {
		k := i
		for k < len(c.took) && c.took[k] == c.took[i] {
			k++
		}
		if v := float64(c.took[i]); v <= longestNS {
			o.bins = append(o.bins, bin{v, v, int64(k - i)})
		}
		i = k
	}
	return nil
}

// doubled counts the requests equal to another. A coarse clock can produce one by
// chance.
func (c *requests) doubled() (n int) {
	slices.Sort(c.marks)
	for i := 1; i < len(c.marks); i++ {
		if c.marks[i] == c.marks[i-1] {
			n++
		}
	}
	return n
}

// unpacked is the content of a file, which may be compressed by gzip.
func unpacked(r *bufio.Reader) (*bufio.Reader, error) {
	if head, _ := r.Peek(2); !bytes.Equal(head, []byte("\x1f\x8b")) {
		return r, nil
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return bufio.NewReader(io.LimitReader(z, maxStream)), nil
}
