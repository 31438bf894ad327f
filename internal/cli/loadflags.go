package cli

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/calls"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/session"
)

type loadFlags struct {
	profile  load.Profile
	output   string
	duration time.Duration
	ramp     []string // segments of a rate that changes
	tls      load.TLS
	http2    bool
	data     string // body, or @file
	targets  string // file of requests
	auth     string // user:password
	resolve  []string
	gates    []string
	findMax  string // objective of a search for the highest rate

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
	{"Connections", []string{"protocol", "http2", "streams", "connection-rate", "no-keepalive", "resolve", "unix-socket", "workers"}},
	{"Request", []string{"targets", "auth", "body-size"}},
	{"TLS", []string{"insecure", "cacert", "cert", "key"}},
	{"Checks", []string{"expect-status", "expect-body", "expect-json"}},
}

func (f *loadFlags) register(flags *pflag.FlagSet) {
	f.profile.ExpectSize = -1 // any
	f.duration, f.profile.Warmup, f.profile.Timeout = 10*time.Second, time.Second, load.DefaultTimeout
	flags.VarP((*rateFlag)(&f.profile.Rate), "rate", "r", "requests per second in total, such as 50, 50/s or 3000/m, or max for a closed loop (also -q)")
	flags.VarP((*rateFlag)(&f.profile.Rate), aliasRate, "q", "same as --rate")
	flags.VarP((*secondsFlag)(&f.duration), "duration", "d", "length of the measurement, such as 30s, or 30 for seconds (also -z)")
	flags.VarP((*secondsFlag)(&f.duration), aliasDuration, "z", "same as --duration")
	_, _ = flags.MarkHidden(aliasRate), flags.MarkHidden(aliasDuration) // both exist
	flags.Int64VarP(&f.profile.Requests, "requests", "n", 0, "number of requests, instead of a duration")
	flags.IntVarP(&f.profile.Connections, "connections", "c", load.DefaultConnections, "connections to use")
	flags.StringVar(&f.profile.Arrivals, "arrivals", load.Poisson, "arrival process: constant, poisson or uniform")
	flags.VarP((*secondsFlag)(&f.profile.Timeout), "timeout", "t", "timeout of a request, from its send")
	flags.StringVar(&f.profile.Protocol, "protocol", "", "http1, http2, grpc, websocket, tcp, or auto: http2 if an https server offers it (default http1, or by URL)")
	flags.BoolVar(&f.http2, "http2", false, "same as --protocol http2")
	flags.IntVar(&f.profile.Streams, "streams", load.DefaultStreams, "concurrent streams per HTTP/2 connection")
	flags.IntVarP(&f.profile.Workers, "workers", "w", 1, "sending threads")
	flags.Var((*secondsFlag)(&f.profile.Warmup), "warmup", "load before the measurement")
	registerRequest(flags, &f.profile.Method, &f.data, &f.profile.Headers)
	flags.StringVar(&f.targets, "targets", "", "`file` of requests: vegeta's targets, or JSON lines; - is standard input")
	flags.StringVarP(&f.auth, "auth", "a", "", "basic authentication as `user`, with the password in $"+envPassword+", or as user:password")
	flags.Int64Var(&f.profile.RequestSize, "body-size", 0, "bytes of request body, or of a TCP echo")
	flags.StringArrayVar(&f.gates, "gate", nil, "exit with 4 unless this `bound` holds, such as 'p99 < 50ms' or 'errors < 0.1%'; may be repeated")
	flags.StringVar(&f.findMax, "find-max", "", "find the highest rate that meets this `objective`, such as 'p99 < 50ms, errors < 0.1%'; --rate is its upper limit (default: from a closed loop)")
	flags.StringSliceVar(&f.profile.ExpectStatus, "expect-status", nil, "successful statuses: `200,3xx`, or grpc-0 to grpc-16 (default 2xx and grpc-0)")
	flags.StringArrayVar(&f.profile.BodyHas, "expect-body", nil, "text that every body must contain, and of tcp:// the whole answer; may be repeated")
	flags.StringArrayVar(&f.profile.JSONHas, "expect-json", nil, "`field` that every JSON answer must have, such as data.id; may be repeated")
	flags.Uint64Var(&f.profile.Seed, "seed", 0, "seed of the random arrivals (default: a new one, which the result contains)")
	flags.StringSliceVar(&f.ramp, "ramp", nil, "steps and ramps of the rate: `10s@100,30s@100-500`")
	flags.StringArrayVar(&f.resolve, "resolve", nil, "use this address for a host, as curl: `host:port:address`; may be repeated")
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
	if n, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(n) < 1e9 {
		*s = secondsFlag(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration, such as 30s, 500ms, or 30 for seconds", text)
	}
	*s = secondsFlag(d)
	return nil
}

// build makes the profile, and every mistake is named.
func (f *loadFlags) build(urls []string) (load.Profile, error) {
	p := f.profile
	var errs []error
	for _, u := range urls {
		if !strings.Contains(u, "://") {
			u = "http://" + u
		}
		p.Targets = append(p.Targets, u)
	}
	errs = append(errs, f.readSecrets(&p), f.speak(&p), f.readTargets(&p), f.refuseValues(), f.addBody(&p), f.addCredentials(&p), f.connect(&p), f.checkFindMax(&p))
	errs = append(errs, f.vary(&p))
	if !f.changed("seed") {
		p.Seed = uint64(rand.Uint32()) // a whole number in every reader of JSON
	}
	var err error
	f.checkedGates, err = parseLoadGates(f.gates)
	errs = append(errs, err)
	if f.tls != (load.TLS{}) {
		p.TLS = &f.tls
	}
	if p.Requests > 0 {
		if !f.timed() {
			f.duration = longest
		}
		if !f.changed("warmup") {
			p.Warmup = 0
		}
	}
	p.Measure, p.Drain = f.duration, max(p.Timeout, time.Second)
	if errors.Join(errs...) == nil {
		errs = append(errs, p.Validate())
	}
	return p, errors.Join(errs...)
}

// urlSchemes are the protocols of URLs. gRPC's get their scheme of HTTP/2.
var urlSchemes = map[string]struct{ protocol, scheme string }{
	"grpc": {load.ProtocolGRPC, "http"}, "grpcs": {load.ProtocolGRPC, "https"}, "ws": {load.ProtocolWebSocket, "ws"}, "wss": {load.ProtocolWebSocket, "wss"},
	"tcp": {load.ProtocolTCP, "tcp"}, "tls": {load.ProtocolTCP, "tls"},
}

// speak sets the protocol of URLs, unless a flag sets it.
func (f *loadFlags) speak(p *load.Profile) error {
	for i, raw := range p.Targets {
		scheme, rest, _ := strings.Cut(raw, "://")
		of, known := urlSchemes[scheme]
		if !known {
			continue
		}
		if p.Protocol = cmp.Or(p.Protocol, of.protocol); of.protocol == load.ProtocolGRPC && p.Protocol != of.protocol {
			return fmt.Errorf("a URL of gRPC with protocol %s", p.Protocol)
		}
		p.Targets[i] = of.scheme + "://" + rest
	}
	if f.http2 {
		p.Protocol = cmp.Or(p.Protocol, load.ProtocolHTTP2)
	}
	if p.Protocol == load.ProtocolTCP && len(p.BodyHas) == 1 {
		p.Answer, p.BodyHas = []byte(p.BodyHas[0]), nil
	}
	return nil
}

// refuseValues finds values that no load can have, also of flags that this load does not use. A default would
// replace a zero.
func (f *loadFlags) refuseValues() error {
	var errs []error
	for _, flag := range []struct {
		name  string
		wrong bool
	}{
		{"connections", f.profile.Connections == 0}, {"requests", f.profile.Requests == 0},
		{"workers", f.profile.Workers == 0}, {"streams", f.profile.Streams < 1}, {"timeout", f.profile.Timeout == 0},
	} {
		if f.changed(flag.name) && flag.wrong {
			errs = append(errs, fmt.Errorf("--%s must be above 0", flag.name))
		}
	}
	for _, file := range []struct{ flag, path string }{
		{"cacert", f.tls.CAFile}, {"cert", f.tls.CertFile}, {"key", f.tls.KeyFile},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(file.path); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", file.flag, err))
		}
	}
	return errors.Join(errs...)
}

// readTargets adds the requests of a file after the requests to the URLs.
func (f *loadFlags) readTargets(p *load.Profile) error {
	switch {
	case f.targets == "" && len(p.Targets) == 0:
		return errors.New("no URL: give one, or a file of requests with --targets")
	case f.targets == "":
		return nil
	case f.targets == "-" && f.data == "@-":
		return errors.New("--targets and --data cannot both read standard input")
	}
	in, name := f.in, "standard input"
	if f.targets != "-" {
		file, err := regular.Open(f.targets, session.MaxTargets)
		if err != nil {
			return fmt.Errorf("--targets: %w", err)
		}
		defer file.Close()
		in, name = file, f.targets
	}
	read, err := calls.Open(in, name)
	if err != nil {
		return err
	}
	before := len(p.Targets)
	p.Calls = make([]load.Call, before)
	weights := slices.Repeat([]int{1}, before)
	for _, c := range read {
		p.Targets, p.Calls = append(p.Targets, c.URL), append(p.Calls, c.Call)
		weights = append(weights, c.Weight)
	}
	p.Weights = weights
	if origins, _ := p.Origins(); !f.changed("connections") { // each host has connections of its own
		p.Connections = max(p.Connections, len(origins))
	}
	return nil
}

// timed reports whether the command line has a duration.
func (f *loadFlags) timed() bool { return f.changed("duration") || f.changed(aliasDuration) }

// addBody sets the request's body and its content type.
func (f *loadFlags) addBody(p *load.Profile) error {
	if f.data == "" {
		return nil
	}
	body, err := readBody(f.data, f.in)
	switch {
	case err != nil:
		return err
	case p.Protocol == load.ProtocolGRPC && json.Valid(body):
		return hint.New("encode it: protoc --encode=package.Message FILE.proto < message.txt > message.bin", "--data is JSON, and a message of gRPC is encoded")
	case p.Protocol == load.ProtocolGRPC:
		p.Messages = [][]byte{body}
		return nil
	}
	p.Body = body
	kind := "application/x-www-form-urlencoded" // as curl
	if json.Valid(body) {
		kind = "application/json"
	}
	if p.Protocol != load.ProtocolTCP && p.Protocol != load.ProtocolWebSocket && !slices.ContainsFunc(p.Headers, func(h string) bool { return isHeader(h, "Content-Type") }) {
		p.Headers = append(p.Headers, "Content-Type: "+kind)
	}
	return nil
}

func isHeader(line, name string) bool {
	field, _, _ := strings.Cut(line, ":")
	return strings.EqualFold(field, name)
}

// readSecrets replaces ${env:NAME} and ${file:PATH} in headers of the command line.
func (f *loadFlags) readSecrets(p *load.Profile) error {
	p.Headers = slices.Clone(p.Headers)
	var errs []error
	for i, h := range p.Headers {
		name, value, _ := strings.Cut(h, ":")
		switch {
		case strings.Contains(value, "${env:") || strings.Contains(value, "${file:"):
			full, err := experiment.WithSecrets(value)
			if p.Headers[i] = name + ":" + full; err != nil {
				errs = append(errs, hint.Wrap(fmt.Errorf("--header %s: %w", name, err), hint.Of(err)))
			}
		case session.SecretHeader(name):
			f.notef("other users can see the value of %s in the list of processes: write -H '%s: ${env:NAME}' or '${file:PATH}'", name, name)
		}
	}
	return errors.Join(errs...)
}

// envPassword has the password of --auth, which the process list then does not show.
const envPassword = "TARE_PASSWORD"

// addCredentials adds basic authentication (RFC 7617). No output contains it.
func (f *loadFlags) addCredentials(p *load.Profile) error {
	if f.auth == "" {
		return nil
	}
	user, password, ok := strings.Cut(f.auth, ":")
	if ok {
		f.notef("other users can see the password of --auth in the list of processes: write --auth %s, and set %s", user, envPassword)
	} else if password, ok = os.LookupEnv(envPassword); !ok {
		return fmt.Errorf("--auth %s has no password: set %s, or write user:password", user, envPassword)
	}
	p.Headers = append(p.Headers, "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	return nil
}

// connect sets where connections go.
func (f *loadFlags) connect(p *load.Profile) error {
	var errs []error
	for _, text := range f.resolve {
		r, err := parseResolve(text)
		p.ConnectTo = append(p.ConnectTo, r)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// parseResolve reads curl's --resolve: host:port:address[,address].
func parseResolve(text string) (load.ConnectTo, error) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) == 3 && parts[0] != "" {
		c := load.ConnectTo{Host: strings.TrimPrefix(parts[0], "*")}
		port, err := strconv.ParseUint(parts[1], 10, 16)
		c.Port = uint16(port)
		for raw := range strings.SplitSeq(parts[2], ",") {
			addr, errAddr := netip.ParseAddr(strings.Trim(raw, "[]"))
			err = errors.Join(err, errAddr)
			c.To = append(c.To, addr)
		}
		if err == nil && c.Port > 0 {
			return c, nil
		}
	}
	return load.ConnectTo{}, fmt.Errorf("--resolve %q is not of the form host:port:address, such as shop.example:443:127.0.0.1", text)
}

// vary sets the changes of the rate over time.
func (f *loadFlags) vary(p *load.Profile) error {
	var errs []error
	var all time.Duration
	for _, r := range f.ramp {
		segment, err := parseSegment(r)
		if err != nil {
			errs = append(errs, err)
		}
		p.Segments = append(p.Segments, segment)
		all += segment.For
	}
	if all > 0 && !f.timed() && p.Requests == 0 {
		if !f.changed("warmup") {
			p.Warmup = 0
		}
		f.duration = max(0, all-p.Warmup)
	}
	return errors.Join(errs...)
}

// parseSegment reads "30s@100" or "30s@100-500".
func parseSegment(text string) (s load.Segment, err error) {
	length, rates, ok := strings.Cut(text, "@")
	from, to, ramp := strings.Cut(rates, "-")
	if !ramp {
		to = from
	}
	if ok {
		s.For, err = time.ParseDuration(length)
		var errFrom, errTo error
		s.From, errFrom = strconv.ParseFloat(from, 64)
		s.To, errTo = strconv.ParseFloat(to, 64)
		err = errors.Join(err, errFrom, errTo)
	}
	if !ok || err != nil {
		return s, fmt.Errorf("ramp %q is not of the form 30s@100 or 30s@100-500", text)
	}
	return s, nil
}

// registerRequest registers the flags of one request, which are the same for every command that sends one.
func registerRequest(flags *pflag.FlagSet, method, data *string, headers *[]string) {
	flags.StringVarP(method, "method", "m", "", "request method (default GET, or POST with a body)")
	flags.StringVar(data, "data", "", "request body: `text`, @file, or @- for standard input")
	flags.StringArrayVarP(headers, "header", "H", nil, "request header `\"Name: value\"`; may be repeated. A secret is ${env:NAME} or ${file:PATH}: other users can see the command line")
}

// registerPrepare registers the flag of programs that end. Their standard input is --data.
func registerPrepare(flags *pflag.FlagSet, prepare *string) {
	flags.StringVar(prepare, "prepare", "", "`command` before each execution of a program that ends, not measured; no shell is started")
}

// inputOf is the file of --data, which a program that ends reads, "" for a text.
func inputOf(data string) string {
	name, isFile := strings.CutPrefix(data, "@")
	if !isFile || name == "-" {
		return ""
	}
	if path, err := filepath.Abs(name); err == nil {
		return path
	}
	return name
}

func readBody(data string, in io.Reader) (body []byte, err error) {
	name, isFile := strings.CutPrefix(data, "@")
	body = []byte(data)
	switch {
	case name == "-" && isFile:
		body, err = io.ReadAll(io.LimitReader(in, load.MaxRequestSize))
	case isFile:
		body, err = regular.ReadInput(name, load.MaxRequestSize)
	}
	if err != nil {
		err = fmt.Errorf("read --data: %w", err)
	}
	return body, err
}
