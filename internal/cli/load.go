package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/engine"
	"github.com/tare-mesh/tare/internal/load/host"
)

// loadOutputs are the output formats.
var loadOutputs = []string{"text", "json", "csv", "hdr"}

const (
	maxProcesses = 256
	longest      = 24 * time.Hour // of a load that ends by its requests
)

// loadFlags are the flags of tare load.
type loadFlags struct {
	profile  load.Profile
	rate     string
	output   string
	duration time.Duration
	ramp     []string // segments of a rate that changes
	sine     string   // a rate that swings
	drop     bool
	tls      load.TLS
	http2    bool
	grpc     string // method
	ipv4     bool
	ipv6     bool
	given    func(flag string) bool
	parts    int // processes to share the load
}

func newLoadCommand(c *CommandLine) *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load URL…",
		Short: "Send load to a URL, and print latencies and whether the generator kept up",
		Long: `load sends requests to one or more URLs and prints outcomes and latencies.

With --rate N requests follow a schedule (open loop). Response time counts from the
intended start of a request, so a pause of the server shows in every request that
was due during it. With --rate max each connection sends its next request after a
response (closed loop). That measures capacity, and times are service times.

The verdict shows whether the generator was the limit.`,
		Example: `  tare load http://127.0.0.1:8080/                               # as fast as it can, for 10 s
  tare load http://127.0.0.1:8080/ --rate 1000 --duration 30s    # 1000 requests/s, as independent users send them
  tare load http://127.0.0.1:8080/ --rate 1000 --arrivals constant -c 16 --warmup 5s
  tare load http://127.0.0.1:8080/ --ramp 10s@100,30s@100-2000   # a step, then a ramp
  tare load http://127.0.0.1:8080/ --rate 500 --sine 30s@200 --duration 60s
  tare load http://127.0.0.1:8080/ -r 100 --expect-status 200,404 --refuse-json errors   # exit code 4 for any other answer
  tare load http://127.0.0.1:8080/ --http2 --streams 64 -c 4 --rate 5000
  tare load https://127.0.0.1:8443/ --protocol auto --cacert ca.pem --cert me.pem --key me.key
  tare load 127.0.0.1:50051 --grpc grpc.health.v1.Health/Check --rate 1000
  tare load tcp://127.0.0.1:7000 --body-size 128 --rate 1000     # an echo: what is sent must come back
  tare load 127.0.0.1:50051 --grpc shop.Prices/Follow --grpc-stream --body-file request.pb --rate 100
  tare load http://web.example:8080/ --resolve connection --no-keepalive -r 100   # each request to the next address
  tare load http://127.0.0.1:8080/old --follow --rate 100       # at most 10 redirects; --follow=3 for 3
  tare load 'http://[::1]:8080/' --rate 100
  tare load http://127.0.0.1:8080/ -n 10000 -o csv               # 10000 requests, a line a second
  tare load http://127.0.0.1:8080/ --rate 20000 --processes 3    # more than one process can send
  tare load http://127.0.0.1:8080/upload -m POST --body-size 4096 --rate 200 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, urls []string) error {
			f.given = cmd.Flags().Changed
			p, err := f.build(urls)
			if err != nil {
				return console.Usage(err, "`tare load --help` shows examples")
			}
			return c.load(cmd, p, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.rate, "rate", "r", "max", "requests per second in total, or max for a closed loop")
	flags.DurationVarP(&f.duration, "duration", "d", 10*time.Second, "length of the measurement")
	flags.Int64VarP(&f.profile.Requests, "requests", "n", 0, "number of requests, instead of a duration")
	flags.IntVar(&f.parts, "processes", 1, "number of tare-agent processes, started together")
	flags.IntVarP(&f.profile.Connections, "connections", "c", load.DefaultConnections, "connections to use")
	flags.StringVar(&f.profile.Arrivals, "arrivals", load.Poisson, "arrival process: constant, poisson, uniform or replay")
	flags.DurationVarP(&f.profile.Timeout, "timeout", "t", load.DefaultTimeout, "time-out of a request")
	flags.StringVar(&f.profile.Protocol, "protocol", "", "http1, http2, grpc, tcp, or auto: http2 if an https server offers it (default http1, or tcp by URL)")
	flags.BoolVar(&f.http2, "http2", false, "same as --protocol http2")
	flags.StringVar(&f.grpc, "grpc", "", "call this gRPC method, `package.Service/Method`, with --body-file, or --body-size bytes in field 1")
	flags.BoolVar(&f.profile.GRPCStream, "grpc-stream", false, "the gRPC method streams its response")
	flags.IntVar(&f.profile.Streams, "streams", load.DefaultStreams, "concurrent streams per HTTP/2 connection")
	flags.IntVarP(&f.profile.Workers, "workers", "w", 1, "sending threads")
	flags.DurationVar(&f.profile.Warmup, "warmup", time.Second, "load before the measurement")
	flags.StringVarP(&f.profile.Method, "method", "m", "", "request method (default GET, or POST with a body)")
	flags.Int64Var(&f.profile.RequestSize, "body-size", 0, "bytes of request body, or of a TCP echo")
	flags.StringSliceVar(&f.profile.ExpectStatus, "expect-status", nil, "successful statuses: `200,3xx`, or grpc-0 to grpc-16 (default 2xx and grpc-0)")
	flags.Int64Var(&f.profile.ExpectSize, "expect-size", -1, "bytes that every body must have; negative: any")
	flags.StringArrayVar(&f.profile.BodyHas, "expect-body", nil, "text that every body must contain; may be repeated")
	flags.StringArrayVar(&f.profile.BodyLacks, "refuse-body", nil, "text that no body may contain; may be repeated")
	flags.StringArrayVar(&f.profile.JSONHas, "expect-json", nil, "`field` that every JSON answer must have, such as data.id; may be repeated")
	flags.StringArrayVar(&f.profile.JSONLacks, "refuse-json", nil, "`field` that no JSON answer may have, such as errors; may be repeated")
	flags.Uint64Var(&f.profile.Seed, "seed", 1, "seed of the random arrivals")
	flags.StringVar(&f.profile.ReplayFile, "replay", "", "`file` of send times in seconds, one a line")
	flags.StringSliceVar(&f.ramp, "ramp", nil, "steps and ramps of the rate: `10s@100,30s@100-500`")
	flags.StringVar(&f.sine, "sine", "", "vary --rate by 200/s in periods of 30 s (`30s@200`)")
	flags.BoolVar(&f.drop, "drop", false, "drop and count requests due while all connections are busy")
	flags.StringArrayVarP(&f.profile.Headers, "header", "H", nil, "request header `\"Name: value\"`; may be repeated")
	flags.StringVar(&f.profile.BodyFile, "body-file", "", "file with the request body")
	flags.IntSliceVar(&f.profile.Weights, "weights", nil, "weights of the URLs, in order")
	flags.IntVar(&f.profile.Follow, "follow", 0, "follow at most `N` redirects a request (default 10 without N)")
	flags.Lookup("follow").NoOptDefVal = strconv.Itoa(load.DefaultFollow)
	flags.StringVar(&f.profile.Resolve, "resolve", load.ResolveOnce, "resolve host names once, or for each connection")
	flags.BoolVarP(&f.ipv4, "ipv4", "4", false, "use IPv4 addresses only")
	flags.BoolVarP(&f.ipv6, "ipv6", "6", false, "use IPv6 addresses only")
	flags.BoolVar(&f.profile.NoKeepAlive, "no-keepalive", false, "open a connection for every request")
	flags.StringVar(&f.profile.Socket, "unix-socket", "", "connect to this Unix socket")
	flags.StringVar(&f.tls.CAFile, "cacert", "", "PEM file of trusted authorities")
	flags.StringVar(&f.tls.CertFile, "cert", "", "PEM file of a client certificate")
	flags.StringVar(&f.tls.KeyFile, "key", "", "PEM file of its key")
	flags.BoolVarP(&f.tls.Insecure, "insecure", "k", false, "accept any certificate")
	flags.BoolVar(&f.tls.FullHandshake, "full-handshake", false, "do not resume TLS sessions")
	flags.StringVar(&f.profile.Engine, "engine", "", "portable: a goroutine per connection (default: the fastest available)")
	flags.DurationVar(&f.profile.Calibrate, "calibrate", 500*time.Millisecond, "calibrate for this long before the load; 0 disables")
	flags.DurationVar(&f.profile.Spin, "spin", 0, "poll this long before a send and for an answer (default 60µs with spare processors; negative: never)")
	flags.IntSliceVar(&f.profile.CPUs, "cpus", nil, "pin workers to these processors")
	flags.StringVar(&f.profile.HDRPath, "hdr", "", "write an HdrHistogram interval log to this file")
	flags.StringVarP(&f.output, "output", "o", "text", "text, json, csv (a line a second) or hdr (an HdrHistogram interval log)")
	return cmd
}

// build makes the profile; every mistake is named.
func (f *loadFlags) build(urls []string) (load.Profile, error) {
	p := f.profile
	var errs []error
	for _, u := range urls {
		if !strings.Contains(u, "://") {
			u = "http://" + u
		}
		p.Targets = append(p.Targets, u)
	}
	errs = append(errs, f.speak(&p))
	if f.rate != "max" {
		rate, err := strconv.ParseFloat(f.rate, 64)
		if err != nil || !(rate > 0) || math.IsInf(rate, 0) {
			errs = append(errs, fmt.Errorf("rate %q is neither a number of requests per second nor max", f.rate))
		}
		p.Rate = rate
	}
	errs = append(errs, f.vary(&p))
	if p.ReplayFile != "" {
		p.Arrivals = load.Replay
		p.Rate = max(p.Rate, 1)
	}
	switch {
	case f.ipv4 && f.ipv6:
		errs = append(errs, errors.New("--ipv4 and --ipv6 exclude each other: without either, both are used"))
	case f.ipv4:
		p.IPVersion = "4"
	case f.ipv6:
		p.IPVersion = "6"
	}
	if f.drop {
		p.Overflow = "drop"
	}
	if f.tls != (load.TLS{}) {
		p.TLS = &f.tls
	}
	if !slices.Contains(loadOutputs, f.output) {
		errs = append(errs, fmt.Errorf("output %q is none of %s", f.output, strings.Join(loadOutputs, ", ")))
	}
	if f.parts < 1 || f.parts > maxProcesses {
		errs = append(errs, fmt.Errorf("%d processes are not between 1 and %d", f.parts, maxProcesses))
	}
	if p.Rate == 0 && len(p.Segments) == 0 {
		p.Calibrate = 0 // the floor of a closed loop is only how fast the echo is
	}
	if p.Requests > 0 {
		if !f.given("duration") {
			f.duration = longest
		}
		if !f.given("warmup") {
			p.Warmup = 0
		}
	}
	if f.parts > max(1, p.Connections) {
		errs = append(errs, fmt.Errorf("%d processes cannot share %d connections", f.parts, p.Connections))
	}
	p.Measure, p.Drain = f.duration, max(p.Timeout, time.Second)
	if errors.Join(errs...) == nil {
		errs = append(errs, p.Validate())
	}
	return p, errors.Join(errs...)
}

// speak sets the protocol, and the method of gRPC.
func (f *loadFlags) speak(p *load.Profile) error {
	if f.http2 {
		p.Protocol = cmp.Or(p.Protocol, "http2")
	}
	if slices.ContainsFunc(p.Targets, func(u string) bool { return strings.HasPrefix(u, "tcp://") || strings.HasPrefix(u, "tls://") }) {
		p.Protocol = cmp.Or(p.Protocol, "tcp")
	}
	if p.Protocol == "tcp" && p.ExpectSize >= 0 {
		return errors.New("an echo is as long as what was sent: leave out --expect-size")
	}
	if f.grpc == "" {
		return nil
	}
	p.Protocol = cmp.Or(p.Protocol, "grpc")
	if p.Protocol != "grpc" || f.http2 {
		return errors.New("a gRPC method is called by protocol grpc and no other")
	}
	for i, raw := range p.Targets {
		u, err := url.Parse(raw)
		if err != nil {
			return err
		}
		u.Path = "/" + strings.TrimPrefix(f.grpc, "/")
		p.Targets[i] = u.String()
	}
	return nil
}

// load runs p, with a live line on a terminal, and prints the outcome.
func (c *CommandLine) load(cmd *cobra.Command, p load.Profile, f *loadFlags) error {
	live := liveLine{w: c.Err, profile: &p}
	var progress func(load.Progress)
	if f, ok := c.Err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		progress = live.show
	}
	needsLog := f.output == "hdr" || f.output == "csv"
	if needsLog && p.HDRPath == "" {
		dir, err := os.MkdirTemp("", "tare-load-")
		if err != nil {
			return fmt.Errorf("write interval log: %w", err)
		}
		defer os.RemoveAll(dir)
		p.HDRPath = filepath.Join(dir, "log.hdr")
	}
	var report load.Report
	var err error
	if f.parts > 1 {
		report, err = loadInParts(cmd.Context(), p, f.parts, progress, c.Err)
	} else {
		host.TuneProcess(p.Workers)
		report, err = engine.Run(cmd.Context(), p, progress)
	}
	live.clear()
	if err != nil {
		return err
	}
	if err := writeLoad(c.Out, f.output, &p, &report); err != nil {
		return fmt.Errorf("write load report: %w", err)
	}
	return loadOutcome(&report)
}

// checksFailed are the kinds of errors of the flags --expect-… and --refuse-….
var checksFailed = []struct{ kind, says string }{
	{"wrong status", "had another status than expected"},
	{"wrong size", "had another size than expected"},
	{"wrong body", "had not the body expected"},
	{"not JSON", "were no JSON"},
	{"wrong JSON field", "had not the JSON fields expected"},
}

// loadOutcome is the command's error: no response, or a failed expectation.
func loadOutcome(r *load.Report) error {
	var failed []string
	for _, c := range checksFailed {
		if n := r.Errors[c.kind]; n > 0 {
			failed = append(failed, fmt.Sprintf("%d answers %s", n, c.says))
		}
	}
	if failed != nil {
		return &console.ExitError{Err: errors.New(strings.Join(failed, ", ")), Code: console.Gate}
	}
	if r.Requests > 0 && r.Classes[load.OK]+r.Classes[load.Status] == 0 {
		return errors.New("no request was answered")
	}
	return nil
}

// liveLine is one line on a terminal, written over once a second.
type liveLine struct {
	w       io.Writer
	profile *load.Profile
	shown   bool
}

func (l *liveLine) show(p load.Progress) {
	l.shown = true
	total := l.profile.Warmup + l.profile.Measure + l.profile.Tail
	fmt.Fprintf(l.w, "\r\x1b[K%-7s %3d s of %.0f   %d requests/s   p50 %s ms   p99 %s ms   errors %d",
		p.Phase, p.Second+1, total.Seconds(), p.Completed, figure(p.P50MS), figure(p.P99MS), p.Errors)
}

func (l *liveLine) clear() {
	if l.shown {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
