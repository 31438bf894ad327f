package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/load/engine"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/loadpage"
	"github.com/tare-mesh/tare/internal/show/report"
)

var loadOutputs = []string{"text", "json", "csv", "hdr"}

// longest bounds a load that ends by its requests.
const longest = 24 * time.Hour

func newLoadCommand(c *CommandLine) *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load [URL…]",
		Short: "Send load to a URL, and print outcomes and latencies",
		Long: `load sends requests to one or more URLs and prints outcomes and latencies.

With --rate N requests follow a schedule (open loop). Response time counts from the
intended start of a request, so a pause of the server shows in every request that
was due during it. With --rate max each connection sends its next request after a
response (closed loop). That measures capacity, and times are service times.`,
		Example: `  tare load http://127.0.0.1:8080/                               # as fast as it can, for 10 s
  tare load http://127.0.0.1:8080/ -r 1000 -z 30s                # 1000 requests/s, as independent users send them
  tare load http://127.0.0.1:8080/ -n 10000 -c 16 -o csv         # 10000 requests, one line per second
  tare load http://127.0.0.1:8080/items --data '{"name": "tare"}' -r 200
  tare load http://127.0.0.1:8080/ -H 'Authorization: Bearer ${env:TOKEN}'     # the list of processes does not show it
  tare load --targets requests.txt -r 200                        # vegeta's targets, or JSON lines
  tare load http://127.0.0.1:8080/ -r 100 --gate 'p99 < 50ms, errors < 0.1%'   # exit code 4 if it does not hold
  tare load http://127.0.0.1:8080/ --find-max 'p99 < 50ms, errors < 0.1%'      # the highest rate that holds
  tare load http://127.0.0.1:8080/ --ramp 10s@100,30s@100-2000   # a step, then a ramp
  tare load https://127.0.0.1:8443/ --protocol auto --cacert ca.pem --cert me.pem --key me.key
  tare load https://shop.example/ --resolve shop.example:443:127.0.0.1 -k -r 100
  tare load grpc://127.0.0.1:50051/shop.Cart/Add --data @message.bin -r 200    # encoded by protoc --encode
  tare load wss://127.0.0.1:8443/chat --data hello -r 500        # WebSocket: each message must come back
  tare load tcp://127.0.0.1:7000 --body-size 128 -r 1000         # an echo: what is sent must come back
  tare load http://127.0.0.1:8080/ -r 20000 --workers 3          # more than one thread can send`,
		RunE: func(cmd *cobra.Command, urls []string) error {
			f.changed, f.in, f.notef = cmd.Flags().Changed, c.In, c.Notef
			p, err := f.build(urls)
			if err != nil {
				return hint.Usage(err, cmp.Or(hint.Of(err), "`tare load --help` shows examples"))
			}
			if err := session.FilesFit("--connections", p.Connections); err != nil {
				return err
			}
			if f.findMax != "" {
				return capacitySearch{c}.findMax(cmd.Context(), p, f, func(ctx context.Context, p load.Profile) (load.Report, error) {
					return runLoad(ctx, p, nil)
				})
			}
			return loadCommand{c}.load(cmd, p, f)
		},
	}
	f.register(cmd.Flags())
	cmd.SetUsageFunc(groupedUsage(loadGroups))
	return cmd
}

type loadCommand struct{ *CommandLine }

// load runs p, with a live line on a terminal, and prints the outcome.
func (c loadCommand) load(cmd *cobra.Command, p load.Profile, f *loadFlags) error {
	live := loadpage.Live{W: c.Err, Width: func() int { return console.Width(c.Err) }, Profile: &p, Color: console.Color(c.Err)}
	progress := func(load.Progress) {}
	ctx, end := context.WithCancel(cmd.Context())
	defer end()
	var restored func()
	if console.IsTerminal(c.Err) && os.Getenv("TERM") != "dumb" {
		progress = live.Show
		restored = console.Keys(ctx, c.In, func(key byte) {
			if key == 'q' {
				end()
			}
		})
		if restored != nil {
			live.Begin()
		}
	}
	defer c.WhileInterrupted(func() {
		end()
		if restored != nil {
			restored()
		}
	}, "\ntare: interrupted: waiting for requests in flight; press Ctrl-C twice more to stop immediately")()
	if f.output == "hdr" || f.output == "csv" {
		dir, err := os.MkdirTemp("", "tare-load-")
		if err != nil {
			return fmt.Errorf("write interval log: %w", err)
		}
		defer os.RemoveAll(dir)
		p.HDRPath = filepath.Join(dir, "log.hdr")
	}
	report, err := runLoad(ctx, p, progress)
	live.Clear()
	if end(); restored != nil {
		restored()
	}
	if err != nil && !errors.Is(err, engine.ErrNoConnection) {
		return err
	}
	ended := err
	switch {
	case err != nil:
	case cmd.Context().Err() != nil: // the load's own end, by the key q, is none
		ended = &console.ExitError{Err: errors.New("interrupted: the report is of the load so far"), Code: console.Interrupted}
	default:
		ended = f.verdict(&report)
	}
	if unwritten := c.writeLoad(f, &p, &report, ended); unwritten != nil {
		return errors.Join(err, fmt.Errorf("write load report: %w", unwritten))
	}
	return ended
}

func runLoad(ctx context.Context, p load.Profile, progress func(load.Progress)) (load.Report, error) {
	host.TuneProcess(p.Workers)
	return engine.Run(ctx, p, progress)
}

// writeLoad writes the outcome in one of loadOutputs. For csv and hdr the interval log is
// at p.HDRPath. ended is the error with which the command ends.
func (c loadCommand) writeLoad(f *loadFlags, p *load.Profile, r *load.Report, ended error) error {
	switch f.output {
	case "text":
		return loadpage.Write(c.Out, p, r, loadpage.Options{Width: console.Columns(c.Out), Color: console.Color(c.Out), Gates: f.gatesOf(r)})
	case "json":
		b := loadpage.BriefOf(p, r, f.gatesOf(r), ended, console.Code(ended))
		b.Subject = withoutQueries(p.Targets)
		return answered(c.Out, b, r)
	}
	log, err := hdrlog.Open(p.HDRPath)
	if err != nil {
		return err
	}
	defer log.Close()
	if f.output == "csv" {
		return writeLoadCSV(c.Out, log, p)
	}
	_, err = io.Copy(c.Out, log)
	return err
}

// loadClasses are the CSV's columns of counts, in order.
var loadClasses = []load.Class{load.OK, load.Status, load.Timeout, load.Conn}

// loadQuantiles are its columns of times.
var loadQuantiles = []float64{50, 90, 99, 99.9, 100}

// writeLoadCSV writes a line for each second of the schedule, warm-up and tail included, which
// the last column marks: how many of the requests intended in it ended how, and quantiles. They are of the times
// of requests with success, ms, and of the lateness of all, µs.
func writeLoadCSV(w io.Writer, log io.Reader, p *load.Profile) error {
	seconds := map[int]map[string]*hdrhistogram.PackedHistogram{}
	err := hdrlog.ReadSeconds(log, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
		if seconds[second] == nil {
			seconds[second] = map[string]*hdrhistogram.PackedHistogram{}
		}
		if sum := seconds[second][tag]; sum != nil {
			sum.Merge(h)
		} else {
			seconds[second][tag] = h
		}
		return nil
	})
	if err != nil {
		return err
	}
	times := []struct {
		column, tag string
		unit        float64 // ns
	}{
		{"response_ms", load.TagResponse + string(load.OK), 1e6}, {"service_ms", load.TagService + string(load.OK), 1e6},
		{"lateness_us", load.TagLateness, 1e3},
	}
	header := []string{"second"}
	for _, class := range loadClasses {
		header = append(header, string(class))
	}
	for _, t := range times {
		for _, q := range loadQuantiles {
			header = append(header, t.column+"_"+strings.Replace("p"+strconv.FormatFloat(q, 'g', -1, 64), "p100", "max", 1))
		}
	}
	header = append(header, load.TagRetried, "phase")
	out := csv.NewWriter(w)
	errs := []error{out.Write(header)}
	for _, second := range slices.Sorted(maps.Keys(seconds)) {
		tags := seconds[second]
		row := []string{strconv.Itoa(second)}
		for _, class := range loadClasses {
			row = append(row, countOf(tags[load.TagResponse+string(class)]))
		}
		for _, t := range times {
			for _, q := range loadQuantiles {
				cell := ""
				if h := tags[t.tag]; h != nil && h.TotalCount() > 0 {
					cell = strconv.FormatFloat(float64(h.ValueAtPercentile(q))/t.unit, 'f', 6, 64)
				}
				row = append(row, cell)
			}
		}
		errs = append(errs, out.Write(append(row, countOf(tags[load.TagRetried]), phasesOf(p, second))))
	}
	out.Flush()
	return errors.Join(append(errs, out.Error())...)
}

// phasesOf are the phases of a load that a second has a part of.
func phasesOf(p *load.Profile, second int) string {
	var in []string
	from, end := time.Duration(second)*time.Second, time.Duration(0)
	for _, phase := range []struct {
		name string
		d    time.Duration
	}{{"warm-up", p.Warmup}, {"measure", p.Measure}, {"tail", p.Tail}} {
		begin := end
		if end += phase.d; begin < from+time.Second && end > from {
			in = append(in, phase.name)
		}
	}
	return strings.Join(in, " and ")
}

// countOf is the number of values of a histogram, none if it is nil.
func countOf(h *hdrhistogram.PackedHistogram) string {
	if h == nil {
		return "0"
	}
	return strconv.FormatInt(h.TotalCount(), 10)
}

// answered writes a result as JSON, with its answer and without control characters.
func answered(w io.Writer, b answer.Brief, v any) error {
	return printable.WritingJSON(w, func(w io.Writer) error { return report.WriteAnswered(w, b, v) })
}

// checksFailed are the kinds of errors of the flags --expect-….
var checksFailed = []struct{ kind, text string }{
	{"wrong status", "had another status than expected"},
	{"wrong body", "had not the body expected"},
	{"not JSON", "were no JSON"},
	{"wrong JSON field", "had not the JSON fields expected"},
}

// neverAccepted are failures that only a gate of errors or success tolerates: they come
// from a wrong address or certificate, not from load.
var neverAccepted = []load.Failure{load.FailureRefused, load.FailureTLS, load.FailureCertificate, load.FailureALPN, load.FailureUpgrade}

// verdict is the command's error: a check or a gate that does not hold, no answer at
// all, or too few successful requests.
func (f *loadFlags) verdict(r *load.Report) error {
	var failed []string
	code := console.Undecided // unless a gate or a check does not hold
	for _, g := range f.gatesOf(r) {
		if !g.Holds {
			failed = append(failed, g.Text)
		}
		if !g.Holds && !g.Undecided {
			code = console.Gate
		}
	}
	for _, c := range checksFailed {
		if n := r.Errors[c.kind]; n > 0 {
			failed, code = append(failed, fmt.Sprintf("%d answers %s", n, c.text)), console.Gate
		}
	}
	if failed == nil {
		return f.answered(r)
	}
	verdict := &console.ExitError{Err: errors.New(strings.Join(failed, "; ")), Code: code}
	if code != console.Undecided {
		return verdict
	}
	return cmp.Or(f.answered(r), error(verdict)) // too few answers may be why a gate is undecided
}

// answered returns an error if no or too few requests were answered with success.
func (f *loadFlags) answered(r *load.Report) error {
	success := r.Result.Success
	switch {
	case r.NoneDue():
		return hint.New("raise --rate or --duration", "no request was due in %v", r.MeasureEnd.Sub(r.MeasureStart).Round(time.Millisecond))
	case success == nil:
		return nil // stopped before the measurement
	case r.Classes[load.OK]+r.Classes[load.Status] == 0:
		err := fmt.Errorf("no request was answered: %s", causes(r.Result.Failures))
		if r.Errors[load.FailureNoDescriptors.String()] > 0 {
			return hint.Wrap(err, "raise the limit of files of a process (ulimit -n), or use fewer connections")
		}
		return err
	case slices.ContainsFunc(f.checkedGates, capacity.Bound.OfFailures):
		return nil
	}
	refused := lists.Where(r.Result.Failures, func(c load.Cause) bool {
		return slices.ContainsFunc(neverAccepted, func(k load.Failure) bool { return c.Cause == k.String() })
	})
	if refused != nil {
		return fmt.Errorf("%s of %d requests; --gate 'errors < 1%%' would accept fewer than 1 %%", causes(refused), r.Requests)
	}
	return nil
}

// causes lists the causes of failures with their numbers.
func causes(failures []load.Cause) string {
	return strings.Join(lists.Map(failures, func(c load.Cause) string { return fmt.Sprintf("%s (%d)", c, c.Count) }), ", ")
}

// parseLoadGates reads gates with commas between them.
func parseLoadGates(texts []string) ([]capacity.Bound, error) {
	var gates []capacity.Bound
	for _, text := range texts {
		bounds, err := capacity.ParseBounds(text)
		if err != nil {
			return nil, fmt.Errorf("gate %w", err)
		}
		gates = append(gates, bounds...)
	}
	return gates, nil
}

// gatesOf checks every gate against the report.
func (f *loadFlags) gatesOf(r *load.Report) (checked []loadpage.Gate) {
	figures := r.Figures()
	for _, g := range f.checkedGates {
		holds, value, undecided := g.Check(&figures)
		text := fmt.Sprintf("gate %q %s: %s", g.Text, map[bool]string{true: "holds", false: "does not hold"}[holds], g.Value(value))
		if undecided != "" {
			text = fmt.Sprintf("gate %q cannot be decided: %s", g.Text, undecided)
		}
		checked = append(checked, loadpage.Gate{Text: text, Holds: holds, Undecided: undecided != ""})
	}
	return checked
}

// Of a search for the highest rate.
const (
	defaultProbe = 2 * time.Second
	probes       = 20
)

// checkFindMax refuses what contradicts a search.
func (f *loadFlags) checkFindMax(p *load.Profile) error {
	if f.findMax == "" {
		return nil
	}
	var errs []error
	if _, err := capacity.ParseBounds(f.findMax); err != nil {
		errs = append(errs, fmt.Errorf("--find-max: %w", err))
	}
	for _, flag := range []string{"requests", "ramp", "gate"} {
		if f.changed(flag) {
			errs = append(errs, fmt.Errorf("--find-max and --%s exclude each other", flag))
		}
	}
	if f.output != "text" && f.output != "json" {
		errs = append(errs, fmt.Errorf("--find-max has output text or json, not %s", f.output))
	}
	if !f.timed() {
		f.duration = defaultProbe
	}
	if !f.changed("warmup") {
		p.Warmup = f.duration / 4
	}
	return errors.Join(errs...)
}

// capacitySearch is `tare load --find-max`.
type capacitySearch struct{ *CommandLine }

type probeFunc func(context.Context, load.Profile) (load.Report, error)

// findMax searches the highest rate at which the objective holds, and prints it. p.Rate is the
// upper limit. 0 means 1.25 times the rate of a closed loop.
func (c capacitySearch) findMax(ctx context.Context, p load.Profile, f *loadFlags, run probeFunc) error {
	live := func(format string, args ...any) {
		if console.IsTerminal(c.Err) {
			fmt.Fprint(c.Err, "\r\x1b[K"+ansi.Truncate(fmt.Sprintf(format, args...), cmp.Or(console.Width(c.Err), defaultWidth)-1, "…"))
		}
	}
	defer live("")
	var times []load.Quantiles                // of each probe
	seeds := rand.New(rand.NewPCG(p.Seed, 0)) // so that one seed repeats the search
	one := func(ctx context.Context, rate float64, length time.Duration) (capacity.Figures, error) {
		p := p
		p.Rate, p.Measure = rate, length
		if rate == 0 {
			live("closed loop, for the upper limit of the search")
		} else {
			left := time.Duration(probes-len(times)) * (length + p.Warmup)
			live("probe %d of %d: %.0f req/s  %v left", len(times)+1, probes, rate, left.Round(time.Second))
			p.Seed = uint64(seeds.Uint32())
		}
		r, err := run(ctx, p)
		switch {
		case err != nil:
			return capacity.Figures{}, err
		case rate != 0:
			times = append(times, r.ResponseMS)
		case r.Classes[load.OK] == 0 && ctx.Err() == nil:
			return capacity.Figures{}, fmt.Errorf("no request succeeded: %s", causes(r.Result.Failures))
		}
		return r.Figures(), nil
	}
	found, err := capacity.Find(ctx, capacity.Options{Objective: f.findMax, Limit: p.Rate, Probes: probes, Length: f.duration, Seed: p.Seed}, one)
	live("")
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w after %s of %d, too few for a rate", context.Canceled, printable.Counted(len(times), "probe"), probes)
	}
	if err != nil {
		return err
	}
	if found.Note != "" {
		found.Note += " Use a quieter machine, more --workers, or a lower --rate."
	}
	var ended error
	switch {
	case ctx.Err() != nil:
		ended = context.Cause(ctx)
	case found.Rate == 0:
		ended = &console.ExitError{Err: fmt.Errorf("no rate could be decided: the server was not tested"), Code: console.Undecided}
	case found.Open == capacity.OpenBelow:
		ended = &console.ExitError{Err: fmt.Errorf("no rate meets %s", f.findMax), Code: console.Gate}
	}
	return cmp.Or(c.writeCapacity(loadpage.CapacityOf(found, times), p.Targets, f, console.Code(ended)), ended)
}

// defaultWidth is the assumed width of a terminal that does not report it, in columns.
const defaultWidth = 80

func (c capacitySearch) writeCapacity(found *loadpage.Capacity, targets []string, f *loadFlags, exit int) error {
	if f.output == "json" {
		b := found.Brief(exit)
		b.Subject = withoutQueries(targets)
		return answered(c.Out, b, found)
	}
	return loadpage.WriteCapacity(c.Out, found, loadpage.Options{Width: console.Columns(c.Out), Color: console.Color(c.Out)})
}

// withoutQueries are the URLs for a page that may be sent to others: a query or a user may be a secret.
func withoutQueries(targets []string) string {
	var all []string
	for _, t := range targets {
		u, err := url.Parse(t)
		if err != nil {
			continue
		}
		u.RawQuery, u.Fragment, u.User = "", "", nil
		all = append(all, u.String())
	}
	return printable.Listed(all, mostTargets)
}

// mostTargets are named in the page of a search.
const mostTargets = 5
