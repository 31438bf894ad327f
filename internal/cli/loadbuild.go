package cli

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/calls"
	"github.com/tare-mesh/tare/internal/session"
)

// build makes the profile, and every mistake is named.
func (f *loadFlags) build(urls []string) (load.Profile, error) {
	p := f.profile
	p.Warmup, p.Timeout = time.Duration(f.warmup), time.Duration(f.timeout)
	var errs []error
	for _, u := range urls {
		if !strings.Contains(u, "://") {
			u = "http://" + u
		}
		p.Targets = append(p.Targets, u)
	}
	errs = append(errs, f.readSecrets(&p), f.speak(&p), f.readTargets(&p), f.refuseValues(), f.addBody(&p), f.addCredentials(&p), f.connect(&p), f.checkFindMax(&p))
	p.Rate = float64(f.rate)
	errs = append(errs, f.vary(&p))
	if p.Seed = f.seed; !f.changed("seed") {
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
			f.duration.d = longest
		}
		if !f.changed("warmup") {
			p.Warmup = 0
		}
	}
	p.Measure, p.Drain = f.duration.d, max(p.Timeout, time.Second)
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
		must  string
	}{
		{"connections", f.profile.Connections == 0, "be above 0"}, {"requests", f.profile.Requests == 0, "be above 0"},
		{"workers", f.profile.Workers == 0, "be above 0"}, {"streams", f.profile.Streams < 1, "be above 0"},
		{"timeout", f.timeout == 0, "be above 0"},
	} {
		if f.changed(flag.name) && flag.wrong {
			errs = append(errs, fmt.Errorf("--%s must %s", flag.name, flag.must))
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
	data := f.data
	if f.duration.body != "" {
		if f.changed("data") {
			return fmt.Errorf("the request has two bodies, -d %q and --data", f.duration.body)
		}
		data = f.duration.body
		f.notef("-d %s is the request's body, as with --data; the duration is -z 10s, or -d 10s", data)
	}
	if data == "" {
		return nil
	}
	body, err := readBody(data, f.in)
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

// connect sets where connections go and which name TLS uses.
func (f *loadFlags) connect(p *load.Profile) error {
	var errs []error
	for _, text := range f.resolve {
		r, err := parseResolve(text)
		p.ConnectTo = append(p.ConnectTo, r)
		errs = append(errs, err)
	}
	for _, text := range f.connectTo {
		r, err := parseConnectTo(text)
		p.ConnectTo = append(p.ConnectTo, r)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// parseResolve reads curl's --resolve: host:port:address[,address].
func parseResolve(text string) (load.ConnectTo, error) {
	parts := splitHosts(text, 3)
	if len(parts) == 3 && parts[0] != "" {
		c := load.ConnectTo{Host: strings.TrimPrefix(parts[0], "*")}
		port, err := strconv.ParseUint(parts[1], 10, 16)
		c.Port = uint16(port)
		for raw := range strings.SplitSeq(parts[2], ",") {
			addr, errAddr := netip.ParseAddr(strings.Trim(raw, "[]"))
			err = errors.Join(err, errAddr)
			c.To = append(c.To, netip.AddrPortFrom(addr, c.Port).String())
		}
		if err == nil && c.Port > 0 {
			return c, nil
		}
	}
	return load.ConnectTo{}, fmt.Errorf("--resolve %q is not of the form host:port:address, such as shop.example:443:127.0.0.1", text)
}

// parseConnectTo reads curl's --connect-to: host1:port1:host2:port2, each of which may be
// empty.
func parseConnectTo(text string) (load.ConnectTo, error) {
	parts := splitHosts(text, 4)
	if len(parts) != 4 {
		return load.ConnectTo{}, fmt.Errorf("--connect-to %q is not of the form host1:port1:host2:port2, such as shop.example:443:127.0.0.1:8443", text)
	}
	c := load.ConnectTo{Host: strings.Trim(parts[0], "[]")}
	for _, port := range []string{parts[1], parts[3]} {
		if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
			return c, fmt.Errorf("--connect-to %q: port %q is not between 1 and 65535", text, port)
		}
	}
	port, _ := strconv.ParseUint(parts[1], 10, 16)
	c.Port = uint16(port)
	c.To = []string{parts[2] + ":" + parts[3]}
	return c, nil
}

// splitHosts splits at colons outside brackets, into at most n parts.
func splitHosts(text string, n int) []string {
	var parts []string
	depth, from := 0, 0
	for i, r := range text {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ':' && depth == 0 && len(parts) < n-1:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
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
		f.duration.d = max(0, all-p.Warmup)
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
