package mesh

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// localPart checks the part of a definition for one machine.
type localPart struct{ *validation }

func (v localPart) validate(d Definition) {
	control := v.controls(d.Local.Control, d.Local.Sidecar.Chosen())
	v.certificates(d, control)
	v.sidecar(d.Local.Sidecar, control)
	if d.Local.Sidecar.ReadyKind() != ReadyAdmin && d.Local.Verify.Counts() && d.Local.Sidecar.Counters == nil {
		v.report("local.sidecar", "counters: missing, although local.verify names counters", "add counters: {format: prometheus, url: http://${admin}/metrics}")
	}
	if d.Local.Sidecar.ReadyKind() == ReadyAdmin || d.Local.Verify.Counts() || d.Local.Sidecar.Counters != nil {
		v.verify(d.Local.Verify, d.Provides.MTLS, control)
	}
	v.features(*d.Local, control)
	v.changes(d.Local.Changes, control)
}

// changes checks the requests of changes.
func (v localPart) changes(all map[string]Request, control map[string]ControlContext) {
	sample := ChangeContext{Service: "echo", Version: 1, Endpoints: sampleOutbound("echo")[0].Endpoints, Control: control, Secrets: sampleSecrets}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		at := "local.changes." + kind
		v.oneOf(at, kind, ChangeKinds()...)
		v.request(at, all[kind], []any{sample})
	}
}

// features checks the names of options, and what verifies them.
func (v localPart) features(l Local, control map[string]ControlContext) {
	for i, c := range l.Control {
		v.option(fmt.Sprintf("local.control[%d].option", i), c.Option, l.Sidecar.Options)
	}
	for i, f := range l.Verify.Features {
		at := fmt.Sprintf("local.verify.features[%d]", i)
		v.required(at+".option", f.Option, "name an option of the sidecar")
		v.option(at+".option", f.Option, l.Sidecar.Options)
		if f.Inbound == "" && f.Outbound == "" && len(f.Dump) == 0 {
			v.report(at, "nothing would show that the option acts", "name a counter: inbound or outbound; or texts of the configuration dump")
		}
		v.template(at+".inbound", f.Inbound, sampleContexts(control)[:1])
		v.template(at+".outbound", f.Outbound, sampleOutbounds(control))
	}
	if _, err := regexp.Compile(l.Verify.Statistics); err != nil {
		v.report("local.verify.statistics", err.Error(), "write a regular expression (RE2)")
	}
}

// option reports a name if no option has it, or if the option takes neither "true" nor numbers.
func (v localPart) option(path, name string, options map[string]Option) {
	if o := options[name]; name != "" && o.UpTo == 0 && !slices.Contains(o.OneOf, on) {
		v.report(path, fmt.Sprintf("there is no option %q with the value true, or with numbers", name), "declare it in local.sidecar.options")
	}
}

// controls checks the processes of the control plane, and returns their contexts for the other templates.
func (v localPart) controls(all []Control, options map[string]string) map[string]ControlContext {
	seen := map[string]ControlContext{}
	for i, c := range all {
		at := fmt.Sprintf("local.control[%d]", i)
		_, twice := seen[c.Name]
		switch {
		case c.Name == "":
			v.report(at+".name", "no name is given", "add name: server")
		case !label.MatchString(c.Name):
			v.report(at+".name", fmt.Sprintf("found %q, expected lower-case letters, digits and -", c.Name), "")
		case twice:
			v.report(at+".name", fmt.Sprintf("there are two called %q", c.Name), "")
		}
		if c.Program == "" {
			v.report(at+".program", "no program is given", "add the name of one on PATH, or its path")
		}
		if len(c.Ready) == 0 {
			v.report(at+".ready", "missing: needed to determine readiness", "add requests whose response is 2xx once it is ready")
		}
		ctx := sampleControlContext(c, options, maps.Clone(seen))
		for j, arg := range c.Args {
			v.template(fmt.Sprintf("%s.args[%d]", at, j), arg, []any{ctx})
		}
		v.template(at+".config", c.Config, []any{ctx})
		for j, r := range c.Ready {
			v.request(fmt.Sprintf("%s.ready[%d]", at, j), r, []any{ctx})
		}
		if c.Version != nil {
			v.request(at+".version", c.Version.Request, []any{ctx})
			v.required(at+".version.field", c.Version.Field, "name the field of the answer that has the version")
		}
		seen[c.Name] = ctx
	}
	return seen
}

func (v localPart) certificates(d Definition, control map[string]ControlContext) {
	const at = "local.certificates"
	c := d.Local.Certificates
	if c == nil {
		return
	}
	if !d.Provides.MTLS {
		v.report(at, "the mesh does not provide mtls", "add mtls: true to provides, or remove the certificates")
	}
	samples := []any{CertificateContext{Service: "echo", Control: control, Secrets: sampleSecrets}}
	v.required(at+".identity", c.Identity, "add the SPIFFE ID of a service, e.g. spiffe://example.test/{{.Service}}")
	v.required(at+".chain", c.Chain, "name the field of the answer that has the certificate")
	v.required(at+".key", c.Key, "name the field of the answer that has the key")
	v.template(at+".identity", c.Identity, samples)
	v.request(at+".roots", c.Roots, samples)
	v.request(at+".issue", c.Issue, samples)
}

func (v localPart) sidecar(s Sidecar, control map[string]ControlContext) {
	const at = "local.sidecar"
	if s.Program == "" {
		v.report(at+".program", "no program is given", "add program: envoy, or the path of another")
	}
	if s.Concurrency < 0 || s.Concurrency > maxConcurrency {
		v.report(at+".concurrency", fmt.Sprintf("found %d, expected 1 to %d worker threads", s.Concurrency, maxConcurrency), "")
	}
	v.options(at+".options", s.Options)
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		if !variable.MatchString(name) {
			v.report(at+".environment."+name, fmt.Sprintf("%q is no name of an environment variable", name), "")
		}
	}
	samples := sampleContexts(control)
	for i := range samples {
		samples[i] = withOptions(samples[i], s)
	}
	for i, arg := range s.Args {
		v.template(fmt.Sprintf("%s.args[%d]", at, i), arg, samples)
	}
	v.template(at+".config", s.Config, samples)
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if !label.MatchString(name) {
			v.report(at+".files."+name, fmt.Sprintf("found %q, expected lower-case letters, digits and -", name), "")
		}
		v.template(at+".files."+name, s.Files[name], samples)
	}
	if c := s.Counters; c != nil {
		if err := c.problem(); err != nil {
			v.report(at+".counters", err.Error(), hint.Of(err))
		}
		v.template(at+".counters.url", c.URL, samples)
		v.template(at+".counters.socket", c.Socket, samples)
	}
	v.controlled(at, s, control)
}

// withOptions is a sample with the options of the sidecar.
func withOptions(sample any, s Sidecar) any {
	ctx, _ := sample.(SidecarContext)
	ctx.Options, ctx.Files = s.Chosen(), map[string]string{}
	for name := range s.Files {
		ctx.Files[name] = "/run/" + name
	}
	return ctx
}

// controlled checks the fields of a sidecar that a control plane configures.
func (v localPart) controlled(at string, s Sidecar, control map[string]ControlContext) {
	for i, r := range s.Register {
		samples := sampleContexts(control)
		for j := range samples {
			samples[j] = withOptions(samples[j], s)
		}
		v.request(fmt.Sprintf("%s.register[%d]", at, i), r, samples)
	}
	v.template(at+".inboundListener", s.InboundListener, sampleContexts(control)[:1])
	v.template(at+".outboundListener", s.OutboundListener, sampleOutbounds(control))
	v.template(at+".outboundEndpoints", s.OutboundEndpoints, sampleOutbounds(control))
	b := s.Bootstrap
	if b == nil {
		return
	}
	v.required(at+".bootstrap.program", b.Program, "add the program that prints the configuration")
	if s.Config != "" {
		v.report(at+".config", "the bootstrap prints the configuration", "remove one of config and bootstrap")
	}
	for i, arg := range b.Args {
		v.template(fmt.Sprintf("%s.bootstrap.args[%d]", at, i), arg, sampleContexts(control))
	}
	for _, name := range slices.Sorted(maps.Keys(b.Env)) {
		v.template(at+".bootstrap.env."+name, b.Env[name], sampleContexts(control))
	}
}

func (v localPart) verify(ver Verify, mtls bool, control map[string]ControlContext) {
	const at = "local.verify"
	switch {
	case !ver.Counts():
		v.report(at, "missing: nothing would prove that the data plane is in the path", "name the counters of the sidecar: unit, inbound, outbound")
		return
	case ver.Unit == "":
		v.report(at+".unit", "no unit is given", "expected "+strings.Join(units, " or "))
	case !slices.Contains(units, ver.Unit):
		v.report(at+".unit", fmt.Sprintf("found %q, expected %s", ver.Unit, strings.Join(units, " or ")), "")
	}
	v.template(at+".denied", ver.Denied, sampleContexts(control)[:1])
	v.template(at+".inboundSent", ver.InboundSent, sampleContexts(control)[:1])
	for _, c := range []struct{ field, text string }{{"outboundReceived", ver.OutboundReceived}, {"retries", ver.Retries}, {"timeouts", ver.Timeouts}} {
		v.template(at+"."+c.field, c.text, sampleOutbounds(control))
	}
	for _, c := range []struct {
		field, text      string
		outbound, isMTLS bool
	}{
		{"inbound", ver.Inbound, false, false},
		{"outbound", ver.Outbound, true, false},
		{"inboundHandshakes", ver.InboundHandshakes, false, true},
		{"outboundHandshakes", ver.OutboundHandshakes, true, true},
	} {
		path := at + "." + c.field
		switch needed := !c.isMTLS || mtls; {
		case c.text == "" && needed:
			v.report(path, "no counter is given", "name a counter as the sidecar's statistics show it")
		case c.text != "" && !needed:
			v.report(path, "the mesh does not provide mtls", "add mtls: true to provides, or remove the counter")
		case c.outbound:
			v.template(path, c.text, sampleOutbounds(control))
		default:
			v.template(path, c.text, sampleContexts(control)[:1])
		}
	}
}
