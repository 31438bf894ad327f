package generator

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
)

// vegetaTraits describes github.com/tsenart/vegeta. It writes every request in gob. The lateness of each follows from its sequence
// number.
var vegetaTraits = traits{name: "vegeta", loop: loopOpen, closed: true, protocols: []string{"http1", "http2"},
	method: true, body: true, targets: true, version: versionOf{"-version", `Version: v?([0-9][^\s]*)`},
	command: vegetaCommand, parse: func(r io.Reader, p load.Profile) (Outcome, error) {
		o, err := ParseVegeta(r)
		o.scheduled(p.Rate)
		return o, err
	}}

// vegetaCommand limits the workers to the profile's connections. Without a limit vegeta
// starts another worker whenever all are busy, until it or the server fails.
func vegetaCommand(t traits, p load.Profile) (proc.Command, error) {
	var args []string
	if p.Workers > 0 {
		args = append(args, "-cpus="+strconv.Itoa(p.Workers))
	}
	n := strconv.Itoa(p.Connections)
	args = append(args, "attack", "-format=json", "-targets=stdin", "-output=stdout",
		"-rate="+vegetaRate(p.Rate), "-duration="+milliseconds(t.duration(p)),
		"-workers="+n, "-max-workers="+n, "-connections="+n, "-max-connections="+n,
		"-redirects=-1", "-max-body=0")
	if p.Timeout > 0 {
		args = append(args, "-timeout="+milliseconds(p.Timeout))
	}
	h2 := protocol(p) == "http2"
	args = append(args, "-http2="+strconv.FormatBool(h2))
	if h2 && strings.HasPrefix(p.Targets[0], "http:") {
		args = append(args, "-h2c")
	}
	return proc.Command{Args: args, Stdin: strings.NewReader(vegetaTargets(p))}, nil
}

// vegetaRate formats requests per unit of time, both as integers.
func vegetaRate(rate float64) string {
	if rate == math.Round(rate) {
		return decimal(rate) + "/1s"
	}
	return decimal(math.Round(rate*1000)) + "/1000s"
}

// vegetaTargets formats the targets as one JSON object per line.
func vegetaTargets(p load.Profile) string {
	var out strings.Builder
	for _, url := range p.Targets {
		target := map[string]any{"method": method(p), "url": url}
		if h := host(p); h != "" {
			target["header"] = map[string][]string{"Host": {h}}
		}
		if p.RequestSize > 0 {
			target["body"] = base64.StdEncoding.EncodeToString([]byte(body(p)))
		}
		line, _ := json.Marshal(target) // strings only: Marshal cannot fail
		out.Write(append(line, '\n'))
	}
	return out.String()
}

// scheduled computes the lateness of the records against a constant schedule. The
// k-th request sent, by any worker, was due k/rate after the schedule's start. The
// output does not contain that start. The least late request is assumed to be on
// time, so the lateness is a lower bound.
func (o *Outcome) scheduled(rate float64) {
	if rate <= 0 || len(o.Records) == 0 {
		return
	}
	due := func(r Record) float64 { return float64(r.Seq) / rate * 1e9 }
	least := math.Inf(1)
	for _, r := range o.Records {
		least = min(least, float64(r.At)-due(r))
	}
	for i := range o.Records {
		r := &o.Records[i]
		if late := float64(r.At) - due(*r) - least; late >= 0 && late < float64(math.MaxInt64)/4 {
			r.Late = time.Duration(late)
		}
	}
	o.note("intended starts are worked out from vegeta's sequence numbers; the least late request is taken to have been on time")
}

// vegetaResult has the fields of vegeta's result, named as in gob and JSON.
type vegetaResult struct {
	Seq       uint64              `json:"seq"`
	Code      uint16              `json:"code"`
	Timestamp time.Time           `json:"timestamp"`
	Latency   time.Duration       `json:"latency"`
	BytesOut  uint64              `json:"bytes_out"`
	BytesIn   uint64              `json:"bytes_in"`
	Error     string              `json:"error"`
	Headers   map[string][]string `json:"headers"`
}

// vegetaReader collects results, whose time stamps are in ns since the first.
type vegetaReader struct {
	o     Outcome
	first time.Time
	in    int64
	out   int64
}

// ParseVegeta reads results in gob or JSON, and reports in JSON or text. It
// detects the format from the first bytes.
func ParseVegeta(r io.Reader) (Outcome, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	v := vegetaReader{o: Outcome{Generator: "vegeta", Sized: true}}
	head, err := b.Peek(512)
	if len(head) == 0 {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return v.o, fmt.Errorf("read output of vegeta: %w", err)
	}
	switch first := bytes.TrimSpace(head); {
	case bytes.HasPrefix(first, []byte(`{"latencies"`)):
		return parseVegetaReport(b)
	case bytes.HasPrefix(first, []byte("{")):
		err = eachLine(b, "vegeta", v.jsonLine)
	case bytes.HasPrefix(first, []byte("Requests ")):
		return parseVegetaText(b)
	case !bytes.ContainsFunc(first, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }): // gob has such bytes
		err = errors.New("read output of vegeta: it is neither a report nor results in gob or JSON")
	default:
		err = v.gob(b)
	}
	v.close()
	return v.o, err
}

// close makes all times relative to the earliest request. Results are in the order of their ends.
func (v *vegetaReader) close() {
	if len(v.o.Records) == 0 {
		return
	}
	earliest := v.o.Records[0].At
	for _, r := range v.o.Records {
		earliest = min(earliest, r.At)
	}
	var end time.Duration
	for i := range v.o.Records {
		r := &v.o.Records[i]
		r.At -= earliest
		r.Done = r.At + r.Service
		end = max(end, r.Done)
	}
	v.o.Started, v.o.Elapsed = v.first.Add(earliest), end
	v.o.BytesIn, v.o.BytesOut = new(v.in), new(v.out)
}

func (v *vegetaReader) jsonLine(line string) error {
	if strings.TrimSpace(line) == "" {
		return nil
	}
	var r vegetaResult
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return err
	}
	if r.Timestamp.IsZero() {
		return errors.New("it is no result: no time stamp")
	}
	return v.add(r)
}

// maxFrame bounds one message of a gob stream: a result with its body, in bytes.
const maxFrame = 16 << 20

// gob reads the output of vegeta attack.
func (v *vegetaReader) gob(r *bufio.Reader) (err error) {
	// encoding/gob is documented as not hardened against hostile input.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read output of vegeta: it is no gob stream: %v", p)
		}
	}()
	dec := gob.NewDecoder(&gobFrames{r: r})
	for n := 1; ; n++ {
		var res vegetaResult
		switch err := dec.Decode(&res); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read output of vegeta: result %d: %w", n, err)
		}
		if res.Timestamp.IsZero() {
			return fmt.Errorf("read output of vegeta: result %d has no time stamp", n)
		}
		if err := v.add(res); err != nil {
			return fmt.Errorf("read output of vegeta: result %d: %w", n, err)
		}
	}
}

func (v *vegetaReader) add(r vegetaResult) error {
	if len(v.o.Records) == maxRecords {
		return tooMany("vegeta")
	}
	if v.o.Records == nil {
		v.first = r.Timestamp
	}
	if r.Latency < 0 || r.Latency > 1<<60 || r.Code > 999 {
		return fmt.Errorf("status %d, latency %v", r.Code, r.Latency)
	}
	rec := Record{At: r.Timestamp.Sub(v.first), Late: unknown, Service: r.Latency, Response: unknown,
		Seq: r.Seq, Code: int(r.Code), Size: vegetaSize(r)}
	if rec.At < -1<<60 || rec.At > 1<<60 {
		return fmt.Errorf("time stamp %v is far from the others", r.Timestamp)
	}
	if r.Code == 0 {
		rec.Error = errorKind(r.Error)
	}
	v.in += int64(min(r.BytesIn, maxSize))
	v.out += int64(min(r.BytesOut, maxSize))
	v.o.Records = append(v.o.Records, rec)
	return nil
}

// vegetaSize returns the body's size in bytes. With -max-body=0 vegeta counts no
// body bytes, and the size is from the header.
func vegetaSize(r vegetaResult) int64 {
	if r.BytesIn > 0 {
		return int64(min(r.BytesIn, maxSize))
	}
	for name, values := range r.Headers {
		if len(values) == 1 && textproto.CanonicalMIMEHeaderKey(name) == "Content-Length" {
			if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && n >= 0 && n <= maxSize {
				return n
			}
		}
	}
	return -1
}

// gobFrames forwards a gob stream message by message. It refuses a message longer
// than maxFrame before it allocates memory for it.
type gobFrames struct {
	r    *bufio.Reader
	rest bytes.Buffer
}

func (g *gobFrames) Read(p []byte) (int, error) {
	if g.rest.Len() == 0 {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	return g.rest.Read(p)
}

// next reads one message: its length as a gob unsigned integer, and its bytes.
func (g *gobFrames) next() error {
	g.rest.Reset()
	first, err := g.r.ReadByte()
	if err != nil {
		return err
	}
	g.rest.WriteByte(first)
	length := uint64(first)
	if first > 0x7f {
		n := -int(int8(first))
		if n > 8 {
			return errors.New("it is no gob stream")
		}
		length = 0
		for range n {
			b, err := g.r.ReadByte()
			if err != nil {
				return io.ErrUnexpectedEOF
			}
			g.rest.WriteByte(b)
			length = length<<8 | uint64(b)
		}
	}
	if length > maxFrame {
		return fmt.Errorf("a message of %d bytes is longer than %d", length, maxFrame)
	}
	if _, err := io.CopyN(&g.rest, g.r, int64(length)); err != nil {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// vegetaReport is vegeta report -type=json, in ns.
type vegetaReport struct {
	Latencies map[string]*float64 `json:"latencies"`
	BytesIn   struct {
		Total *float64 `json:"total"`
	} `json:"bytes_in"`
	BytesOut struct {
		Total *float64 `json:"total"`
	} `json:"bytes_out"`
	Earliest time.Time           `json:"earliest"`
	Duration *float64            `json:"duration"`
	Wait     *float64            `json:"wait"`
	Requests *float64            `json:"requests"`
	Rate     *float64            `json:"rate"`
	Statuses map[string]*float64 `json:"status_codes"`
	Errors   []string            `json:"errors"`
}

func parseVegetaReport(r io.Reader) (Outcome, error) {
	var j vegetaReport
	if err := readJSON(r, "vegeta", &j); err != nil {
		return Outcome{Generator: "vegeta"}, err
	}
	return j.outcome(), nil
}

func (j vegetaReport) outcome() Outcome {
	o := Outcome{Generator: "vegeta", Started: j.Earliest}
	if j.Duration != nil && j.Wait != nil {
		o.Elapsed, o.Sending = span((*j.Duration+*j.Wait)/1e9), span(*j.Duration/1e9)
	}
	for _, f := range []struct {
		to   **int64
		from *float64
	}{{&o.Requests, j.Requests}, {&o.BytesIn, j.BytesIn.Total}, {&o.BytesOut, j.BytesOut.Total}} {
		if f.from != nil {
			*f.to = count(*f.from)
		}
	}
	if j.Rate != nil {
		o.Rate = asRate(*j.Rate)
	}
	o.Statuses = counts(j.Statuses)
	o.unanswered(j.Errors)
	d := latencyOf(ofService)
	for name, v := range j.Latencies {
		if v == nil {
			continue
		}
		switch s := *v / 1e9; name {
		case "min":
			d.min(s)
		case "mean":
			d.mean(s)
		case "max":
			d.max(s)
		default: // "99th" or "99"
			if q, err := strconv.ParseFloat(strings.TrimSuffix(name, "th"), 64); err == nil && !math.IsNaN(q) {
				d.quantile(q/100, s)
			}
		}
	}
	if o.Requests != nil {
		d.Count = *o.Requests
	}
	d.addTo(&o)
	return o
}

// parseVegetaText reads the report in text: "Latencies  [min, mean, …]  133µs, 2.2ms, …".
func parseVegetaText(r io.Reader) (Outcome, error) {
	var j vegetaReport
	figures, inSet := map[string]map[string]*float64{}, false // by title and name, times in ns
	err := eachLine(r, "vegeta", func(line string) error {
		if inSet && line != "" {
			j.Errors = append(j.Errors, line)
			return nil
		}
		inSet = inSet || strings.HasPrefix(line, "Error Set:")
		title, rest, ok := strings.Cut(line, "[")
		names, values, ok2 := strings.Cut(rest, "]")
		if title = strings.TrimSpace(title); !ok || !ok2 || title == "Bucket" {
			return nil
		}
		figures[title] = map[string]*float64{}
		if title == "Status Codes" {
			for _, pair := range strings.Fields(values) {
				code, n, _ := strings.Cut(pair, ":")
				if v, ok := textInt(n); ok {
					figures[title][code] = new(float64(v))
				}
			}
			return nil
		}
		name, list := strings.Split(names, ", "), strings.Split(strings.TrimSpace(values), ", ")
		for i := range min(len(name), len(list)) {
			if t, err := time.ParseDuration(list[i]); err == nil && (title == "Latencies" || title == "Duration") {
				figures[title][name[i]] = new(float64(t))
			} else if v, err := strconv.ParseFloat(list[i], 64); err == nil {
				figures[title][name[i]] = &v
			}
		}
		return nil
	})
	j.Latencies, j.Statuses, j.Requests, j.Rate = figures["Latencies"], figures["Status Codes"], figures["Requests"]["total"], figures["Requests"]["rate"]
	j.BytesIn.Total, j.BytesOut.Total = figures["Bytes In"]["total"], figures["Bytes Out"]["total"]
	if total, attack := figures["Duration"]["total"], figures["Duration"]["attack"]; total != nil && attack != nil {
		j.Duration, j.Wait = attack, new(*total-*attack)
	}
	return j.outcome(), err
}

// unanswered moves status 0, vegeta's count of requests without a response, to the errors. texts are
// the different errors, without counts: only a single cause has a known count.
func (o *Outcome) unanswered(texts []string) {
	if n := o.Statuses["0"]; n > 0 {
		cause := ""
		for _, text := range texts {
			kind := errorKind(text)
			if status, _, _ := strings.Cut(text, " "); o.Statuses[status] > 0 {
				continue // "503 Service Unavailable"
			}
			if cause != "" && kind != cause {
				kind = "other"
			}
			cause = kind
		}
		if cause == "" || cause == "other" {
			cause = "no answer"
		}
		o.Errors = map[string]int64{cause: n}
	}
	delete(o.Statuses, "0")
}
