package app

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// Expand returns the command, after its prefix, and the environment with addresses in place of ${port}, ${host},
// ${callee.url}, ${callee.host} and ${callee.port}. The environment begins with PORT, and for each
// callee NAME_URL, NAME_HOST and NAME_PORT.
func (o Own) Expand(a Addresses) (command, env []string) {
	return a.expandAll(slices.Concat(o.Prefix, o.Command), o.Env)
}

// Expand is [Own.Expand] for a process beside a program: ${port} is its own port, and its callees are the program and the other
// processes.
func (p BesideProcess) Expand(a Addresses) (command, env []string) {
	return a.expandAll(p.Command, p.Env)
}

// UsesPort reports whether the process is given a port. Otherwise it is not expected to listen.
func (p BesideProcess) UsesPort() bool {
	return uses(Addresses{Port: -1}, "-1", p.Command, p.Env)
}

// Attaches reports whether the process is given the process ID of the program with a name. It then starts after the program.
func (p BesideProcess) Attaches(program string) bool {
	return uses(Addresses{Program: program, PID: -1}, "-1", p.Command, p.Env)
}

func (a Addresses) expandAll(words []string, variables map[string]string) (command, env []string) {
	for _, word := range words {
		word, _ = a.expand(word)
		command = append(command, word)
	}
	env = []string{fmt.Sprintf("PORT=%d", a.Port)}
	for _, callee := range slices.Sorted(maps.Keys(a.Callees)) {
		for _, part := range calleeParts {
			value, _ := a.placeholder(callee + "." + part)
			env = append(env, strings.ToUpper(strings.ReplaceAll(callee, "-", "_")+"_"+part)+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		value, _ := a.expand(variables[name])
		env = append(env, name+"="+value)
	}
	return command, env
}

// UsesHost reports whether the program is given its address. Otherwise it is expected at 127.0.0.1.
func (o Own) UsesHost() bool {
	return uses(Addresses{Host: "\x00"}, "\x00", slices.Concat(o.Prefix, o.Command), o.Env)
}

// uses reports whether a mark in the addresses appears in the expanded words or variables.
func uses(marked Addresses, mark string, words []string, variables map[string]string) bool {
	return slices.ContainsFunc(slices.AppendSeq(slices.Clone(words), maps.Values(variables)), func(text string) bool {
		out, _ := marked.expand(text)
		plain, _ := Addresses{}.expand(text)
		return strings.Count(out, mark) > strings.Count(plain, mark)
	})
}

// own reports mistakes in a program of the user, and fields that apply to others only.
func (v validation) own(at string, s Service) {
	if !s.IsOwn() {
		for name, has := range map[string]bool{"env": s.Env != nil, "dir": s.Dir != "", "ready": s.Ready != "", "tls": s.TLS, "exchange": s.Exchange != (Exchange{}), "prefix": len(s.Prefix) > 0, "beside": len(s.Beside) > 0} {
			if has {
				v.report(join(at, name), "it needs a command", "add command: [PROGRAM, ARGUMENT, …]")
			}
		}
		return
	}
	if !reflect.DeepEqual(s.Behavior, Behavior{}) {
		v.report(at, "one's own program has no simulated behaviour", "leave name, command, url, env, dir, ready, tls, exchange, prefix, beside, protocol, replicas and calls")
	}
	if o := s.Exchange.Opening; o != nil && (o.Send == "" || o.Expect+o.Until == "") {
		v.report(join(at, "exchange.opening"), "it has no request, or no answer", `write opening: {send: "HELLO\n", expect: "OK\n"}, or until: with the bytes that end the answer`)
	}
	switch known := s.Exchange.Send != "" && s.Exchange.Expect+s.Exchange.Until != ""; {
	case s.Protocol == TCP && !known:
		v.report(join(at, "exchange"), "the load does not know what to send to a program with protocol tcp, and its answer", `write exchange: {send: "PING\r\n", expect: "+PONG\r\n"}`)
	case s.Protocol != TCP && s.Protocol != "" && s.Exchange != (Exchange{}):
		v.report(join(at, "exchange"), "it is of protocol tcp, and the protocol is "+s.Protocol, "write protocol tcp, or remove it")
	case s.Protocol == TCP && s.Ready != "":
		v.report(join(at, "ready"), "a program with protocol tcp has no path", "remove it: the program is ready when it answers the exchange")
	}
	if s.Secure() && s.Protocol != "" && s.Protocol != HTTP1 && s.Protocol != HTTP2 {
		v.report(join(at, "tls"), "a program with TLS of its own speaks http1 or http2, and the protocol is "+s.Protocol, "let it serve without TLS, or measure it with http1 or http2")
	}
	if s.Secure() && s.Name != v.t.EntryName() {
		v.report(join(at, "tls"), "only the service that receives the load may speak TLS itself", "let it serve without TLS: sidecars add the encryption")
	}
	if s.TLS && strings.HasPrefix(s.URL, "http://") {
		v.report(join(at, "tls"), "the URL is of plain HTTP", "write url: https://…")
	}
	if s.Ready != "" && !IsPath(s.Ready) {
		v.report(join(at, "ready"), fmt.Sprintf("%.80q is not a path", s.Ready), "write a path such as /healthz")
	}
	if s.URL != "" {
		v.running(at, s)
		return
	}
	v.command(at, s)
}

// Own is a program of the user that runs a service in place of tare-agent, on this machine.
type Own struct {
	// Command is the program with its arguments. [Own.Expand] fills in the addresses.
	Command []string `yaml:"command,omitempty" json:"command,omitempty"`
	// URL is the address of a program that already runs, instead of a command. tare neither starts nor stops it.
	URL string `yaml:"url,omitempty" json:"url,omitempty"`
	// Env is added to tare's environment, which the program inherits.
	Env map[string]string `yaml:"env,omitempty" json:"env,omitempty"`
	// Dir is the working directory, relative to the experiment file. Empty means the file's directory.
	Dir string `yaml:"dir,omitempty" json:"dir,omitempty"`
	// Ready is a path that is answered with 2xx or 3xx once the program serves. Empty means any HTTP answer at "/".
	Ready string `yaml:"ready,omitempty" json:"ready,omitempty"`
	// TLS: the program speaks TLS itself, with any certificate. Sidecars forward its connections as they are. A URL of https
	// means the same.
	TLS bool `yaml:"tls,omitempty" json:"tls,omitempty"`
	// Exchange is the request of protocol tcp.
	Exchange Exchange `yaml:"exchange,omitempty" json:"exchange,omitzero"`
	// Prefix are words before the command: a program that starts it, with its own arguments.
	Prefix []string `yaml:"prefix,flow,omitempty" json:"prefix,omitempty"`
	// Beside are processes outside the path of requests, which start before the program and end with the trial.
	Beside []BesideProcess `yaml:"beside,omitempty" json:"beside,omitempty"`
}

// Exchange is a request to a program of protocol tcp, and its answer: the whole one, or with Until its beginning.
type Exchange struct {
	Send   string `yaml:"send" json:"send"`
	Expect string `yaml:"expect,omitempty" json:"expect,omitempty"`
	Until  string `yaml:"until,omitempty" json:"until,omitempty"` // end of the answer
	// Opening precedes the first request of each connection, such as a login.
	Opening *Opening `yaml:"opening,omitempty" json:"opening,omitempty"`
}

// Opening is an exchange before others.
type Opening struct {
	Send   string `yaml:"send" json:"send"`
	Expect string `yaml:"expect,omitempty" json:"expect,omitempty"`
	Until  string `yaml:"until,omitempty" json:"until,omitempty"`
}

// BesideProcess is a process beside a program of the user, such as a collector. Its usage belongs to the data plane.
type BesideProcess struct {
	Name    string            `yaml:"name" json:"name"` // DNS label, of its task
	Command []string          `yaml:"command,flow" json:"command"`
	Env     map[string]string `yaml:"env,omitempty" json:"env,omitempty"`
}

// IsOwn reports whether the user's program runs the service.
func (o Own) IsOwn() bool { return len(o.Command) > 0 || o.URL != "" }

func (v validation) running(at string, s Service) {
	if _, err := s.Address(); err != nil {
		v.report(join(at, "url"), err.Error(), "write the address without a path; factors.route has the path")
	}
	if len(s.Command) > 0 {
		v.report(join(at, "url"), "both a command and the URL of a running program are written", "remove one of the two")
	}
	for name, has := range map[string]bool{"env": s.Env != nil, "dir": s.Dir != "", "prefix": len(s.Prefix) > 0, "beside": len(s.Beside) > 0, "calls": len(s.Calls) > 0, "replicas": s.Replicas > 1} {
		if has {
			v.report(join(at, name), "it applies to a program that tare starts", "write command instead of url")
		}
	}
}

// Address returns the address of a program that already runs.
func (o Own) Address() (netip.AddrPort, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%.80q is not a URL", printable.URL(o.URL))
	}
	host, port := u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	if host == "localhost" {
		host = "127.0.0.1"
	}
	at, err := netip.ParseAddrPort(host + ":" + port)
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Opaque != "" || u.RawQuery != "" || strings.Trim(u.Path, "/") != "":
		return at, fmt.Errorf("%.80q is not of the form http://127.0.0.1:PORT", o.URL)
	case err != nil || !at.Addr().Is4() || !at.Addr().IsLoopback() || at.Port() == 0:
		return at, fmt.Errorf("%.80q is not on an IPv4 loopback address of this machine", o.URL)
	}
	return at, nil
}

func (v validation) command(at string, s Service) {
	known := Addresses{Callees: map[string]netip.AddrPort{}}
	for j, c := range s.Calls {
		known.Callees[c.Service] = netip.AddrPort{}
		if plain := (Call{Service: c.Service, CallOptions: CallOptions{Probability: c.Probability}}); c.Service == "" || !reflect.DeepEqual(c, plain) {
			v.report(fmt.Sprintf("%s[%d]", join(at, "calls"), j), "the program makes its calls itself", "leave the name of the service, and a probability")
		}
	}
	v.beside(at, s, known)
	for _, b := range s.Beside {
		known.Callees[b.Name] = netip.AddrPort{}
	}
	if len(s.Prefix) > 0 {
		v.words(join(at, "prefix"), s.Prefix, known)
	}
	v.words(join(at, "command"), s.Command, known)
	v.environment(join(at, "env"), s.Env, known)
}

// beside reports mistakes in the processes beside a program with its callees.
func (v validation) beside(at string, s Service, callees Addresses) {
	known := Addresses{Program: s.Name, Callees: map[string]netip.AddrPort{s.Name: {}}}
	for _, b := range s.Beside {
		known.Callees[b.Name] = netip.AddrPort{}
	}
	for i, b := range s.Beside {
		place := fmt.Sprintf("%s[%d]", join(at, "beside"), i)
		_, callee := callees.Callees[b.Name]
		switch {
		case !IsLabel(b.Name):
			v.report(place+".name", notLabel(b.Name), labelHint)
		case ReservedBeside(b.Name) || b.Name == s.Name || callee:
			v.report(place+".name", fmt.Sprintf("%q is the name of another part of the trial", b.Name), "choose another name")
		case slices.ContainsFunc(s.Beside[:i], func(o BesideProcess) bool { return o.Name == b.Name }):
			v.report(place+".name", fmt.Sprintf("%q is already the name of a process", b.Name), "choose another name")
		}
		if len(b.Command) == 0 {
			v.report(place+".command", "it has no command", "write command: [PROGRAM, ARGUMENT, …]")
			continue
		}
		v.words(place+".command", b.Command, known)
		v.environment(place+".env", b.Env, known)
	}
}

// ReservedBeside reports whether another container of a pod has the name.
func ReservedBeside(name string) bool { return slices.Contains(besideReserved, name) }

var besideReserved = []string{"app", "sidecar", "control", "load", "tare"}

func (v validation) words(path string, words []string, known Addresses) {
	if words[0] == "" {
		v.report(path, "the name of the program is empty", "")
	}
	for _, word := range words {
		v.placeholders(path, word, known)
	}
}

func (v validation) environment(path string, env map[string]string, known Addresses) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !isVariable(name) {
			v.report(path, fmt.Sprintf("%.80q is not the name of an environment variable", name), "letters, digits and _, not beginning with a digit")
		}
		v.placeholders(path, env[name], known)
	}
}

// placeholders reports an unknown address in a text, and a byte that no program can be passed.
func (v validation) placeholders(path, text string, known Addresses) {
	if _, unknown := known.expand(text); unknown != "" {
		v.report(path, fmt.Sprintf("unknown placeholder ${%.60s}", strings.TrimSuffix(unknown, "}")), cmpHint(strict.DidYouMean(unknown, known.names())))
	}
	if strings.ContainsRune(text, 0) {
		v.report(path, "a NUL byte cannot be passed to a program", "")
	}
}

func (a Addresses) names() []string {
	all := []string{"port", "host"}
	for _, callee := range slices.Sorted(maps.Keys(a.Callees)) {
		for _, part := range calleeParts {
			all = append(all, callee+"."+part)
		}
	}
	if a.Program != "" {
		all = append(all, a.Program+".pid")
	}
	return all
}

// expand replaces ${name} in a text. $${ stands for ${. unknown is the first unknown name.
func (a Addresses) expand(text string) (out string, unknown string) {
	var b strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			return b.String() + text, unknown
		}
		if i > 0 && text[i-1] == '$' {
			b.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		name, rest, closed := strings.Cut(text[i+2:], "}")
		value, known := a.placeholder(name)
		if !closed || !known {
			unknown = cmp.Or(unknown, name)
		}
		b.WriteString(text[:i] + value)
		text = rest
	}
}

// Carried is the protocol that sidecars of a service see where it speaks another.
func (o Own) Carried(protocol string) string {
	if o.Secure() {
		return TCP
	}
	return protocol
}

// Secure reports whether the program speaks TLS itself.
func (o Own) Secure() bool { return o.TLS || strings.HasPrefix(o.URL, "https://") }

// OwnName is the name of the service if the application is one program.
const OwnName = "app"

// Addresses of a program and of its callees.
type Addresses struct {
	Host    string
	Port    int
	Callees map[string]netip.AddrPort // by service, or by the name of a process beside the program
	// Program is the name of the service that a process is beside, and PID its process ID.
	Program string
	PID     int
}

// Placeholders of a callee, after its name and a dot.
var calleeParts = []string{"url", "host", "port"}

func (a Addresses) placeholder(name string) (string, bool) {
	switch name {
	case "host":
		return a.Host, true
	case "port":
		return fmt.Sprint(a.Port), true
	}
	callee, part, _ := strings.Cut(name, ".")
	at, ok := a.Callees[callee]
	switch {
	case part == "pid" && callee == a.Program:
		return fmt.Sprint(a.PID), a.Program != ""
	case ok && part == "url":
		return "http://" + at.String(), true
	case ok && part == "host":
		return at.Addr().String(), true
	case ok && part == "port":
		return fmt.Sprint(at.Port()), true
	}
	return "", false
}

// cmpHint adds how to write a literal ${.
func cmpHint(hint string) string {
	const literal = "$${ stands for ${ itself"
	if hint == "" {
		return literal
	}
	return hint + "; " + literal
}

func isVariable(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) && (name[0] < '0' || name[0] > '9')
}
