package cli

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
)

type loadFlags struct {
	profile   load.Profile
	rate      rateFlag
	output    string
	duration  durationFlag
	warmup    secondsFlag
	timeout   secondsFlag
	seed      uint64
	ramp      []string // segments of a rate that changes
	tls       load.TLS
	http2     bool
	data      string // body, or @file
	targets   string // file of requests
	auth      string // user:password
	resolve   []string
	connectTo []string
	gates     []string
	findMax   string // objective of a search for the highest rate

	checkedGates []capacity.Bound
	changed      func(flag string) bool
	in           io.Reader
	notef        func(format string, args ...any)
}

// Aliases of flags, by the letters that other load generators use.
const (
	aliasRate     = "qps"
	aliasDuration = "run-time"
)

// flagGroup is a part of a command's help.
type flagGroup struct {
	title string
	names []string
}

// loadGroups are the flags of tare load as its help groups them.
var loadGroups = []flagGroup{
	{"Most used", []string{"rate", "duration", "requests", "connections", "method", "header", "data", "timeout", "gate", "output"}},
	{"Rate", []string{"arrivals", "seed", "warmup", "ramp", "find-max"}},
	{"Connections", []string{"protocol", "http2", "streams", "connection-rate", "no-keepalive", "resolve", "connect-to", "unix-socket", "workers"}},
	{"Request", []string{"targets", "auth", "body-size"}},
	{"TLS", []string{"insecure", "cacert", "cert", "key"}},
	{"Checks", []string{"expect-status", "expect-body", "expect-json"}},
}

func (f *loadFlags) register(flags *pflag.FlagSet) {
	f.profile.ExpectSize = -1 // any
	f.duration.d, f.warmup, f.timeout = 10*time.Second, secondsFlag(time.Second), secondsFlag(load.DefaultTimeout)
	flags.VarP(&f.rate, "rate", "r", "requests per second in total, such as 50, 50/s or 3000/m, or max for a closed loop (also -q)")
	flags.VarP(&f.rate, aliasRate, "q", "same as --rate")
	flags.VarP(&f.duration, "duration", "d", "length of the measurement, such as 30s, or 30 for seconds (also -z)")
	flags.VarP(&f.duration, aliasDuration, "z", "same as --duration")
	_, _ = flags.MarkHidden(aliasRate), flags.MarkHidden(aliasDuration) // both exist
	flags.Int64VarP(&f.profile.Requests, "requests", "n", 0, "number of requests, instead of a duration")
	flags.IntVarP(&f.profile.Connections, "connections", "c", load.DefaultConnections, "connections to use")
	flags.StringVar(&f.profile.Arrivals, "arrivals", load.Poisson, "arrival process: constant, poisson or uniform")
	flags.VarP(&f.timeout, "timeout", "t", "timeout of a request, from its send")
	flags.StringVar(&f.profile.Protocol, "protocol", "", "http1, http2, grpc, websocket, tcp, or auto: http2 if an https server offers it (default http1, or by URL)")
	flags.BoolVar(&f.http2, "http2", false, "same as --protocol http2")
	flags.IntVar(&f.profile.Streams, "streams", load.DefaultStreams, "concurrent streams per HTTP/2 connection")
	flags.IntVarP(&f.profile.Workers, "workers", "w", 1, "sending threads")
	flags.Var(&f.warmup, "warmup", "load before the measurement")
	registerRequest(flags, &f.profile.Method, &f.data, &f.profile.Headers)
	flags.StringVar(&f.targets, "targets", "", "`file` of requests: vegeta's targets, or JSON lines; - is standard input")
	flags.StringVarP(&f.auth, "auth", "a", "", "basic authentication as `user`, with the password in $"+envPassword+", or as user:password")
	flags.Int64Var(&f.profile.RequestSize, "body-size", 0, "bytes of request body, or of a TCP echo")
	flags.StringArrayVar(&f.gates, "gate", nil, "exit with 4 unless this `bound` holds, such as 'p99 < 50ms' or 'errors < 0.1%'; may be repeated")
	flags.StringVar(&f.findMax, "find-max", "", "find the highest rate that meets this `objective`, such as 'p99 < 50ms, errors < 0.1%'; --rate is its upper limit (default: from a closed loop)")
	flags.StringSliceVar(&f.profile.ExpectStatus, "expect-status", nil, "successful statuses: `200,3xx`, or grpc-0 to grpc-16 (default 2xx and grpc-0)")
	flags.StringArrayVar(&f.profile.BodyHas, "expect-body", nil, "text that every body must contain, and of tcp:// the whole answer; may be repeated")
	flags.StringArrayVar(&f.profile.JSONHas, "expect-json", nil, "`field` that every JSON answer must have, such as data.id; may be repeated")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the random arrivals (default: a new one, which the result contains)")
	flags.StringSliceVar(&f.ramp, "ramp", nil, "steps and ramps of the rate: `10s@100,30s@100-500`")
	flags.StringArrayVar(&f.resolve, "resolve", nil, "use this address for a host, as curl: `host:port:address`; may be repeated")
	flags.StringArrayVar(&f.connectTo, "connect-to", nil, "connect to host2 for host1, as curl: `host1:port1:host2:port2`; may be repeated")
	flags.Float64Var(&f.profile.ConnectionRate, "connection-rate", 0, "new connections per `second`: each is replaced after as many requests as make that rate")
	flags.BoolVar(&f.profile.NoKeepAlive, "no-keepalive", false, "open a connection for every request")
	flags.StringVar(&f.profile.Socket, "unix-socket", "", "connect to this Unix socket")
	flags.StringVar(&f.tls.CAFile, "cacert", "", "PEM file of trusted CA certificates")
	flags.StringVar(&f.tls.CertFile, "cert", "", "PEM file of a client certificate")
	flags.StringVar(&f.tls.KeyFile, "key", "", "PEM file of the private key for --cert")
	flags.BoolVarP(&f.tls.Insecure, "insecure", "k", false, "accept any certificate")
	f.output = loadOutputs[0]
	flags.VarP(choiceFlag{&f.output, "output", loadOutputs}, "output", "o", "text, json, csv (one line per second), or hdr (an HdrHistogram interval log)")
}

// rateFlag is a rate in 1/s. 0 is max, a closed loop.
type rateFlag float64

func (r *rateFlag) String() string {
	if *r == 0 {
		return "max"
	}
	return strconv.FormatFloat(float64(*r), 'g', -1, 64)
}

func (*rateFlag) Type() string { return "rate" }

// Set reads 50, 50/s, 50/1s, 3000/m and max.
func (r *rateFlag) Set(text string) error {
	if text == "max" {
		*r = 0
		return nil
	}
	number, unit, _ := strings.Cut(text, "/")
	per := 1.0 // s
	var err error
	if unit != "" {
		if unit[0] < '0' || unit[0] > '9' {
			unit = "1" + unit
		}
		var d time.Duration
		d, err = time.ParseDuration(unit)
		per = d.Seconds()
	}
	n, errNumber := strconv.ParseFloat(number, 64)
	if rate := n / per; err == nil && errNumber == nil && rate > 0 && !math.IsInf(rate, 0) {
		*r = rateFlag(rate)
		return nil
	}
	return fmt.Errorf("%q is neither a number of requests per second, such as 50, 50/s or 3000/m, nor max", text)
}

// secondsFlag is a duration. A number without a unit is in seconds.
type secondsFlag time.Duration

func (s *secondsFlag) String() string { return time.Duration(*s).String() }

func (*secondsFlag) Type() string { return "duration" }

func (s *secondsFlag) Set(text string) error {
	d, err := parseSeconds(text)
	*s = secondsFlag(d)
	return err
}

// durationFlag is the duration of the load, or a body: curl, oha and hey have -d for it.
type durationFlag struct {
	d    time.Duration
	body string
}

func (f *durationFlag) String() string { return f.d.String() }

func (*durationFlag) Type() string { return "duration" }

// Set takes what can only be a body as one.
func (f *durationFlag) Set(text string) error {
	d, err := parseSeconds(text)
	switch {
	case err == nil:
		f.d = d
	case strings.ContainsAny(text[:min(1, len(text))], `{["@`) || strings.Contains(text, "="):
		f.body = text
	default:
		return fmt.Errorf("%w; a request body is --data %q", err, text)
	}
	return nil
}

func parseSeconds(text string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(n) < 1e9 {
		return time.Duration(n * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration, such as 30s, 500ms, or 30 for seconds", text)
	}
	return d, nil
}
