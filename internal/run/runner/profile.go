package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// addRequests sends the kinds of requests to each of the roots, in place of p's targets.
// Headers keep their placeholders.
func addRequests(p *load.Profile, l *experiment.Load, roots []string) {
	p.Targets, p.Headers, p.Stream = roots, headerLines(l.Headers), l.Stream
	requests := l.Requests
	if len(requests) == 0 {
		return
	}
	p.Targets, p.ExpectSize, p.Headers = nil, -1, nil
	for _, root := range roots {
		for i := range requests {
			r := requests[i]
			r.Headers = replacing(l.Headers, r.Headers)
			target, call := callOf(&r, root)
			p.Targets, p.Calls = append(p.Targets, target), append(p.Calls, call)
			p.Weights = append(p.Weights, max(1, requests[i].Weight))
		}
	}
	addStream(p, &requests[0])
}

// WithRequests is a profile that sends the requests of an experiment to the roots of an entry, without placeholders in its headers.
func WithRequests(p load.Profile, l *experiment.Load, entry app.Service, roots []string) (load.Profile, error) {
	addRequests(&p, l, roots)
	addExchange(&p, entry)
	return withSecrets(p)
}

// addExchange sends the request of a program with protocol tcp.
func addExchange(p *load.Profile, entry app.Service) {
	if x := entry.Exchange; p.Protocol == app.TCP && x.Send != "" {
		p.Body, p.Answer, p.Until, p.RequestSize = []byte(x.Send), []byte(x.Expect), []byte(x.Until), 0
		if o := x.Opening; o != nil {
			p.Opening = &load.Exchange{Send: []byte(o.Send), Expect: []byte(o.Expect), Until: []byte(o.Until)}
		}
	}
}

// addWebSocket sets the messages of p, and the answers of tare's own service. A program of the user has answers of its own.
func addWebSocket(p *load.Profile, w experiment.WebSocket, entry app.Service) {
	p.WebSocket = &load.WebSocket{Answer: cmp.Or(w.Answer, load.AnswerEcho), Messages: w.Messages}
	if w.Message != "" {
		p.Body, p.RequestSize = []byte(w.Message), 0
	}
	if entry.IsOwn() {
		return
	}
	switch p.WebSocket.Answer {
	case load.AnswerMessage:
		p.Headers = append(p.Headers, fmt.Sprintf("%s: %d", app.AnswersHeader, max(1, w.Messages)))
	case load.AnswerPong:
		p.Headers = append(p.Headers, app.AnswersHeader+": 0")
	}
}

// addStream makes the calls of p streams. A stream is the only request.
func addStream(p *load.Profile, r *experiment.Request) {
	p.GRPCStream = r.Stream == experiment.StreamServer || r.Stream == experiment.StreamBoth
	p.RoundTrips = r.Stream == experiment.StreamBoth
	for _, m := range r.Messages {
		p.Messages = append(p.Messages, []byte(m))
	}
}

// callOf is a request to a root, which is a URL that the platform made.
func callOf(r *experiment.Request, root string) (target string, c load.Call) {
	c = load.Call{Name: r.Name, Method: r.Method}
	path := r.Path
	switch {
	case r.GRPC != "":
		path = "/" + strings.TrimPrefix(r.GRPC, "/")
		if len(r.Messages) == 0 {
			c.Body = []byte{} // the empty message
		}
		if c.Name == "" {
			c.Name = path[1:]
		}
	case path == "":
		path = "/"
	}
	c.Headers = headerLines(r.Headers)
	if r.Body != "" {
		c.Body = []byte(r.Body)
		c.Method = cmp.Or(c.Method, http.MethodPost)
		if r.GRPC == "" && json.Valid(c.Body) && !hasHeader(r.Headers, "content-type") {
			c.Headers = append(c.Headers, "Content-Type: application/json")
		}
	}
	at, err := url.Parse(root)
	if err != nil {
		return root, c // the profile's validation reports it
	}
	wanted, err := url.ParseRequestURI(path)
	if err != nil {
		return root + path, c
	}
	at.Path, at.RawPath, at.RawQuery, at.ForceQuery = wanted.Path, wanted.RawPath, wanted.RawQuery, wanted.ForceQuery
	return at.String(), c
}

// replacing returns the headers of all requests, with the ones that a request sets itself in place.
func replacing(all, own map[string]string) map[string]string {
	merged := maps.Clone(own)
	for name, value := range all {
		if !hasHeader(own, name) {
			if merged == nil {
				merged = map[string]string{}
			}
			merged[name] = value
		}
	}
	return merged
}

func hasHeader(headers map[string]string, wanted string) bool {
	for name := range headers {
		if strings.EqualFold(name, wanted) {
			return true
		}
	}
	return false
}

// withSecrets is p with the placeholders of its headers replaced. Only the generator gets it.
func withSecrets(p load.Profile) (load.Profile, error) {
	var err error
	if p.Headers, err = replaced(p.Headers); err != nil {
		return p, err
	}
	p.Calls = slices.Clone(p.Calls)
	for i := range p.Calls {
		headers, err := replaced(p.Calls[i].Headers)
		if err != nil {
			return p, err
		}
		p.Calls[i].Headers = headers
	}
	return p, nil
}

// CheckSecrets reports every placeholder that cannot be replaced, before the first trial.
func CheckSecrets(x *experiment.Experiment) error {
	seen := map[string]bool{}
	var errs []error
	lines := headerLines(x.Load.Headers)
	for _, r := range x.Load.Requests {
		lines = append(lines, headerLines(r.Headers)...)
	}
	for _, line := range lines {
		if !seen[line] {
			seen[line] = true
			_, err := replaced([]string{line})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// headerLines are headers as lines of a profile, sorted.
func headerLines(headers map[string]string) (lines []string) {
	for name, value := range headers {
		lines = append(lines, name+": "+value)
	}
	slices.Sort(lines)
	return lines
}

func replaced(headers []string) ([]string, error) {
	var lines []string
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		value, err := experiment.WithSecrets(value)
		if err != nil {
			return nil, fmt.Errorf("load: header %s: %w", name, err)
		}
		lines = append(lines, name+": "+value)
	}
	return lines, nil
}

// findGenerators finds the programs of the trials' generators and adds their versions. A missing
// program is an error before the first trial.
func (r *run) findGenerators(ctx context.Context, pending []plan.Trial, versions map[string]string) error {
	needed := map[string]generator.Generator{}
	for _, t := range pending {
		g, err := r.generatorOf(r.treatments[t.Treatment])
		if err != nil {
			return err
		}
		needed[g.Name()] = g
	}
	sought := generator.FindAll(ctx, slices.Collect(maps.Values(needed)))
	r.versions = map[string]string{}
	for _, s := range sought {
		r.versions[s.Name], versions[s.Name] = s.Found.Version, s.Found.Version
	}
	return generator.Missing(sought)
}

func (r *run) generatorOf(t plan.Treatment) (generator.Generator, error) {
	name := levelOf(r.Experiment, t)
	g, ok := r.Generators[name]
	if !ok {
		return nil, fmt.Errorf("treatment %s: load generator %s does not exist", t.ID, name)
	}
	return g, nil
}

// Unsuited is a plan with treatments that their load generators cannot run. It has a line for each reason.
type Unsuited struct{ hint.Hinted }

// InvalidFile marks an error of the experiment file.
func (*Unsuited) InvalidFile() {}

// Suited checks that every generator can run its treatments, as far as the plan alone shows. The
// error is an [*Unsuited] with all reasons.
func Suited(x *experiment.Experiment, p *plan.Plan, generators map[string]generator.Generator) error {
	type refusal struct{ generator, why string }
	var order []refusal
	of := map[refusal][]string{}
	poisson := false
	for _, t := range p.Treatments {
		g, ok := generators[levelOf(x, t)]
		if !ok {
			return fmt.Errorf("treatment %s: load generator %s does not exist", t.ID, levelOf(x, t))
		}
		if !g.Abilities().Foreign() {
			continue // tare's own runs every valid file
		}
		profile := Profile(x, t, g, []string{"http://127.0.0.1:1/"})
		_, err := g.Command(profile)
		if err == nil && x.Platform.Kind == mesh.OnKubernetes && x.Load.Workers > 1 {
			err = errors.New("it sends from one load worker: load.workers is for tare's own")
		}
		if err == nil {
			continue
		}
		r := refusal{g.Name(), strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error())}
		if of[r] == nil {
			order = append(order, r)
		}
		of[r] = append(of[r], t.ID)
		poisson = poisson || profile.Rate > 0 && profile.Arrivals != "constant"
	}
	if order == nil {
		return nil
	}
	text := "remove the generator from factors.generator, or the feature that it lacks; docs/reference/generators.md lists the features of each"
	if poisson {
		text = "write load: {arrivals: constant}; docs/reference/generators.md lists the features of each"
	}
	lines := lists.Map(order, func(r refusal) error {
		return fmt.Errorf("generator %s cannot run %s: %s", r.generator, printable.Listed(of[r], 3), r.why)
	})
	return &Unsuited{hint.Hinted{Err: errors.Join(lines...), Text: text}}
}

// Profile is the load of one treatment before anything runs: without start, files and seed.
func Profile(x *experiment.Experiment, t plan.Treatment, g generator.Generator, targets []string) load.Profile {
	p := profileOf(x, t.Levels, g, Timing{}.withDefaults().Tail)
	addRequests(&p, &x.Load, targets)
	vary(&p, x.Load.Profile)
	return p
}

// profileOf is the load of one treatment, without the deployment's targets, start and files. The
// warm-up has at least the length that the generator needs.
func profileOf(x *experiment.Experiment, levels experiment.Levels, g generator.Generator, tail time.Duration) load.Profile {
	checks := x.Load.Checks
	statuses := lists.Map(checks.Status, func(s experiment.Status) string { return string(s) })
	return load.Profile{
		RequestSize: int64(levels.RequestSize), ExpectSize: -1,
		ExpectStatus: statuses, BodyHas: checks.BodyHas, BodyLacks: checks.BodyLacks, JSONHas: checks.JSONHas, JSONLacks: checks.JSONLacks,
		Rate: float64(levels.Rate), Arrivals: x.Load.Arrivals,
		Connections: levels.Connections, ConnectionRate: float64(levels.ConnectionRate), Workers: x.Load.Workers, Protocol: levels.Protocol, Timeout: time.Duration(x.Load.Timeout),
		Warmup: max(time.Duration(x.Phases.Warmup), g.Abilities().Needs.Warmup), Measure: time.Duration(x.Phases.Measure),
		Tail: tail, Drain: time.Duration(x.Phases.Drain),
	}
}

// Prolong adds the warm-up that generators need beyond x's to p's expected times. TrialTime
// becomes the mean over all trials.
func Prolong(x *experiment.Experiment, p *plan.Plan, generators map[string]generator.Generator) {
	if len(p.Trials) == 0 {
		return
	}
	more := map[string]time.Duration{} // by treatment
	for _, t := range p.Treatments {
		if g, ok := generators[levelOf(x, t)]; ok {
			more[t.ID] = max(0, g.Abilities().Needs.Warmup-time.Duration(x.Phases.Warmup))
		}
	}
	all := lists.Sum(p.Trials, func(t plan.Trial) time.Duration { return more[t.Treatment] })
	p.Expected += all
	p.TrialTime += all / time.Duration(len(p.Trials))
}

// levelOf returns the name of a treatment's generator. Plans made before the generator was a
// factor lack it.
func levelOf(x *experiment.Experiment, t plan.Treatment) string {
	if name := t.Levels.Generator; name != "" {
		return name
	}
	return x.Load.Generator
}

// interleave gives the slices of a round the rates that p has without the others: all members have
// the same rates in their slices of one row. from is the length of the warm-up without them. It
// needs p's slices, and the warm-up of the round.
func interleave(p *load.Profile, from time.Duration, members int) {
	if len(p.Segments) == 0 {
		return
	}
	own := p.Segments
	if from > 0 {
		own = own[1:] // without the warm-up
	}
	length, left := p.Slices.Length, p.Measure/time.Duration(members)
	rates := []load.Segment{{For: p.Warmup, From: p.Rate, To: p.Rate}}
	if p.Warmup == 0 {
		rates = nil
	}
	at, into := 0, time.Duration(0)                            // segment, and how far it is over
	loaded := float64(length-p.Slices.Guard) / float64(length) // the guard has no requests, so the rates of a slice end before it
	for ; left > 0; left -= length {
		var slice []load.Segment
		quiet := length
		for rest := min(length, left); rest > 0; {
			g := own[at%len(own)]
			part := min(rest, g.For-into)
			if d := time.Duration(float64(part) * loaded); d > 0 {
				slice = append(slice, load.Segment{For: d, From: rateAt(g, into), To: rateAt(g, into+part)})
				quiet -= d
			}
			rest -= part
			if into += part; into == g.For {
				at, into = at+1, 0
			}
		}
		if n := len(slice); n > 0 && quiet > 0 {
			slice = append(slice, load.Segment{For: quiet, From: slice[n-1].To, To: slice[n-1].To})
		}
		for range members {
			for _, g := range slice {
				rates = joined(rates, g)
			}
		}
	}
	p.Segments, p.Repeat = rates, 0
}

// rateAt is the rate of a segment after a time. A mean of its ends is never below zero.
func rateAt(g load.Segment, after time.Duration) float64 {
	if g.From == g.To {
		return g.From
	}
	over := float64(after) / float64(g.For)
	return g.From*(1-over) + g.To*over
}

// joined appends a segment, to the last one if both have one rate.
func joined(rates []load.Segment, g load.Segment) []load.Segment {
	if n := len(rates); n > 0 && rates[n-1].From == rates[n-1].To && rates[n-1].To == g.From && g.From == g.To {
		rates[n-1].For += g.For
		return rates
	}
	return append(rates, g)
}

// vary changes p's rate as the experiment's profile does, from the start of the measure phase.
// The warm-up has the mean rate. p.Rate becomes the mean.
func vary(p *load.Profile, by experiment.RateProfile) {
	if p.Rate == 0 || by.Cycle() == 0 {
		return
	}
	var cycle []load.Segment
	for _, s := range by.Steps {
		from, to := s.Ends()
		cycle = append(cycle, load.Segment{For: time.Duration(s.For), From: from * p.Rate, To: to * p.Rate})
	}
	p.Rate = load.MeanRate(cycle)
	p.Repeat = len(cycle)
	if p.Warmup > 0 {
		p.Segments = []load.Segment{{For: p.Warmup, From: p.Rate, To: p.Rate}}
	}
	p.Segments = append(p.Segments, cycle...)
}
