package app

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/strict"
)

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
}

// IsOwn reports whether the user's program runs the service.
func (o Own) IsOwn() bool { return len(o.Command) > 0 || o.URL != "" }

// OwnName is the name of the service if the application is one program.
const OwnName = "app"

// Addresses of a program and of its callees.
type Addresses struct {
	Host    string
	Port    int
	Callees map[string]netip.AddrPort // by service
}

// Placeholders of a callee, after its name and a dot.
var calleeParts = []string{"url", "host", "port"}

// placeholder returns the value of ${name}.
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
	case ok && part == "url":
		return "http://" + at.String(), true
	case ok && part == "host":
		return at.Addr().String(), true
	case ok && part == "port":
		return fmt.Sprint(at.Port()), true
	}
	return "", false
}

// names lists the placeholders.
func (a Addresses) names() []string {
	all := []string{"port", "host"}
	for _, callee := range slices.Sorted(maps.Keys(a.Callees)) {
		for _, part := range calleeParts {
			all = append(all, callee+"."+part)
		}
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
			if unknown == "" {
				unknown = name
			}
		}
		b.WriteString(text[:i] + value)
		text = rest
	}
}

// Expand returns the command and the environment with addresses in place of ${port}, ${host},
// ${callee.url}, ${callee.host} and ${callee.port}. The environment begins with PORT, and for each
// callee NAME_URL, NAME_HOST and NAME_PORT.
func (o Own) Expand(a Addresses) (command, env []string) {
	for _, word := range o.Command {
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
	for _, name := range slices.Sorted(maps.Keys(o.Env)) {
		value, _ := a.expand(o.Env[name])
		env = append(env, name+"="+value)
	}
	return command, env
}

// UsesHost reports whether the program is given its address. Otherwise it is expected at 127.0.0.1.
func (o Own) UsesHost() bool {
	marked := Addresses{Host: "\x00"}
	for _, text := range append(slices.Collect(maps.Values(o.Env)), o.Command...) {
		if out, _ := marked.expand(text); strings.Contains(out, "\x00") {
			return true
		}
	}
	return false
}

// Address returns the address of a program that already runs.
func (o Own) Address() (netip.AddrPort, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%.80q is not a URL", o.URL)
	}
	host, port := u.Hostname(), u.Port()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "80"
	}
	at, err := netip.ParseAddrPort(host + ":" + port)
	switch {
	case u.Scheme != "http" || u.User != nil || u.Opaque != "" || u.RawQuery != "" || strings.Trim(u.Path, "/") != "":
		return at, fmt.Errorf("%.80q is not of the form http://127.0.0.1:PORT", o.URL)
	case err != nil || !at.Addr().Is4() || !at.Addr().IsLoopback() || at.Port() == 0:
		return at, fmt.Errorf("%.80q is not on an IPv4 loopback address of this machine", o.URL)
	}
	return at, nil
}

// own reports mistakes in a program of the user, and fields that apply to others only.
func (v validation) own(at string, s Service) {
	if !s.IsOwn() {
		for name, has := range map[string]bool{"env": s.Env != nil, "dir": s.Dir != "", "ready": s.Ready != ""} {
			if has {
				v.report(join(at, name), "it needs a command", "add command: [PROGRAM, ARGUMENT, …]")
			}
		}
		return
	}
	switch {
	case s.Program != "":
		v.report(join(at, "program"), "both a program of tare's and one's own are written", "remove one of the two")
	case !reflect.DeepEqual(s.Behavior, Behavior{}):
		v.report(at, "one's own program has no simulated behaviour", "leave name, command, url, env, dir, ready, protocol, replicas and calls")
	}
	if s.Protocol == TCP {
		v.report(join(at, "protocol"), "one's own program cannot have protocol tcp: the load expects an echo", "write http1, http2 or grpc")
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

// running reports mistakes in a program that already runs.
func (v validation) running(at string, s Service) {
	if _, err := s.Address(); err != nil {
		v.report(join(at, "url"), err.Error(), "write the address without a path; factors.route has the path")
	}
	if len(s.Command) > 0 {
		v.report(join(at, "url"), "both a command and the URL of a running program are written", "remove one of the two")
	}
	for name, has := range map[string]bool{"env": s.Env != nil, "dir": s.Dir != "", "calls": len(s.Calls) > 0, "replicas": s.Replicas > 1} {
		if has {
			v.report(join(at, name), "it applies to a program that tare starts", "write command instead of url")
		}
	}
}

// command reports mistakes in the command line and environment of a program.
func (v validation) command(at string, s Service) {
	known := Addresses{Callees: map[string]netip.AddrPort{}}
	for j, c := range s.Calls {
		known.Callees[c.Service] = netip.AddrPort{}
		if plain := (Call{Service: c.Service, CallOptions: CallOptions{Probability: c.Probability}}); c.Service == "" || !reflect.DeepEqual(c, plain) {
			v.report(fmt.Sprintf("%s[%d]", join(at, "calls"), j), "the program makes its calls itself", "leave the name of the service, and a probability")
		}
	}
	if s.Command[0] == "" {
		v.report(join(at, "command"), "the name of the program is empty", "")
	}
	check := func(path, text string) {
		if _, unknown := known.expand(text); unknown != "" {
			v.report(path, fmt.Sprintf("unknown placeholder ${%.60s}", strings.TrimSuffix(unknown, "}")), cmpHint(strict.DidYouMean(unknown, known.names())))
		}
		if strings.ContainsRune(text, 0) {
			v.report(path, "a NUL byte cannot be passed to a program", "")
		}
	}
	for _, word := range s.Command {
		check(join(at, "command"), word)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if !isVariable(name) {
			v.report(join(at, "env"), fmt.Sprintf("%.80q is not the name of an environment variable", name), "letters, digits and _, not beginning with a digit")
		}
		check(join(at, "env"), s.Env[name])
	}
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
