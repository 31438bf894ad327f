package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// format reads the output of one load generator.
type format struct {
	parse func(r io.Reader, corrected bool) (generator.Outcome, error)
	// once occur exactly once in a complete output that begins with head.
	once []string
	head string
	// loop and arrivals are set if the generator has only one kind.
	loop, arrivals string
	failures       bool   // latencies of its summaries include failed requests
	mark           string // occurs in outputs of this generator only
}

// plain adapts readers that do not need the flag.
func plain(parse func(io.Reader) (generator.Outcome, error)) func(io.Reader, bool) (generator.Outcome, error) {
	return func(r io.Reader, _ bool) (generator.Outcome, error) { return parse(r) }
}

var formats = map[string]format{
	"fortio":       {parse: plain(generator.ParseFortio), failures: true, mark: `"DurationHistogram"`},
	"oha":          {parse: generator.ParseOha, mark: `"latencyPercentiles"`},
	"vegeta":       {parse: plain(generator.ParseVegeta), head: "Requests ", once: []string{"[total, rate", "Latencies ", "Status Codes ", "Error Set:"}, loop: "open", arrivals: "constant", failures: true},
	"wrk2":         {parse: plain(generator.ParseWrk2), once: []string{"Running ", "requests in ", "Requests/sec:"}, loop: "open", arrivals: "constant"},
	"wrk":          {parse: plain(generator.ParseWrk), once: []string{"Running ", "requests in ", "Requests/sec:"}, loop: "closed"},
	"k6":           {parse: plain(generator.ParseK6), failures: true, mark: `"http_reqs"`},
	"nighthawk":    {parse: plain(generator.ParseNighthawk), mark: `"benchmark_http_client`},
	"hey":          {parse: plain(generator.ParseHey), head: "Summary:", once: []string{"Summary:", "Requests/sec:"}, mark: "Size/request:", failures: true},
	"ghz":          {parse: plain(generator.ParseGhz), mark: `"statusCodeDistribution"`},
	"jmeter":       {parse: noTable},
	"hdrhistogram": {parse: plain(generator.ParsePercentiles)},
}

// noTable refuses what is not a JTL with a header.
func noTable(io.Reader, bool) (generator.Outcome, error) {
	return generator.Outcome{}, errors.New("read output of jmeter: the first line is not a header with timeStamp and elapsed")
}

// generatorSource is a load generator whose own output can be imported, one file
// per run.
type generatorSource struct {
	name, doc string
}

var generators = []generatorSource{
	{"fortio", "JSON of fortio load -json"},
	{"oha", "JSON of oha, also as Python printed it, or its CSV"},
	{"vegeta", "results of vegeta attack (gob, JSON, CSV), or its report as JSON or text"},
	{"wrk2", "text of wrk2 --latency"},
	{"wrk", "text of wrk --latency"},
	{"k6", "k6 --out json or csv, --summary-export, or the data of handleSummary as JSON"},
	{"nighthawk", "JSON of nighthawk_client --output-format json"},
	{"hey", "text of hey, or its CSV"},
	{"ghz", "JSON of ghz -O json"},
	{"jmeter", "JTL of JMeter as CSV, with its header"},
	{"hdrhistogram", "percentiles in ms as HdrHistogram prints them (.hgrm), with --rate"},
}

// read creates a trial from every file.
func (g generatorSource) read(paths []string, o Options) (*Study, error) {
	s := &Study{Source: g.name, Name: "imported-" + g.name, Description: "Imported: results of " + g.name + "."}
	files, err := s.ListFiles(paths)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(filepath.Dir(a), filepath.Dir(b)) })
	files = slices.DeleteFunc(files, func(path string) bool {
		other := ""
		if len(paths) > 1 || paths[0] != path { // a single file is read, whatever its name
			other, _ = regular.ForeignFormat(path, head(path))
		}
		if other != "" {
			s.Skipped = append(s.Skipped, path+": it is "+other)
		}
		return other != ""
	})
	var dirs []string
	for _, path := range files {
		dirs = append(dirs, filepath.Dir(path))
	}
	meshes := MeshesOf(dirs)
	for _, path := range files {
		t := g.trial(path, meshes[filepath.Dir(path)], o)
		if !slices.Contains(s.Meshes, t.Mesh) {
			s.Meshes = append(s.Meshes, t.Mesh)
		}
		s.Trials = append(s.Trials, t)
	}
	if len(s.Trials) == 0 {
		return nil, &FileError{Path: strings.Join(paths, ", "), Hinted: hint.Hinted{Err: errors.New("no file found")}}
	}
	s.CheckRates()
	s.checkCopies()
	if !slices.ContainsFunc(s.Trials, func(t Trial) bool { return t.Record.Error == "" && t.Record.Started.IsZero() }) {
		slices.SortStableFunc(s.Trials, func(a, b Trial) int { return a.Record.Started.Compare(b.Record.Started) })
		s.CheckOverlap()
	}
	return s, nil
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

func (g generatorSource) trial(path, mesh string, o Options) Trial {
	t := Trial{Mesh: cmp.Or(o.Mesh, mesh), Run: path, Files: []string{path}}
	t.Record.Valid = true
	if err := t.output(g.name, path, o); err != nil {
		t.Record.Valid, t.Record.Error = false, err.Error()
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
	return parseOutput(generator, path, b, o)
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

// failures lists the causes of failed requests, the most frequent first.
func failures(l *result.Load) string {
	counts := maps.Clone(l.Errors)
	for status, n := range l.Statuses {
		counts["status "+status] += n
	}
	var words []string
	for _, cause := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		words = append(words, fmt.Sprintf("%s (%d)", cause, counts[cause]))
	}
	return strings.Join(words[:min(len(words), 4)], ", ")
}

// Take merges the outputs of one run into the trial's load.
func (t *Trial) Take(outs []*Output) error {
	l, log, warnings, err := pool(outs)
	if err != nil {
		return err
	}
	t.Record.Load, t.Latency, t.Connections = &l, log, l.Connections
	t.logs, t.sent = len(outs), 0
	for _, o := range outs {
		t.sent += o.sent
	}
	if t.Record.Started.IsZero() {
		t.Record.Started, t.Record.Ended = l.Start, l.End
	}
	if len(l.Classes) > 0 && l.Classes["2xx"] == 0 {
		t.Invalidate("no-success", fmt.Sprintf("no request of %s succeeded: %s", t.Run, failures(&l)), "check that the server ran, and leave this run out")
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
