package generator

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
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
