package mesh

import (
	"fmt"
	"maps"
	"slices"
)

// controls checks the processes of the control plane, and returns what the other templates see of them.
func (v *validation) controls(all []Control) map[string]ControlContext {
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
			v.report(at+".ready", "missing: nothing would tell that it is ready", "name requests that it answers with 2xx once it is")
		}
		ctx := sampleControlContext(c, maps.Clone(seen))
		for j, arg := range c.Args {
			v.template(fmt.Sprintf("%s.args[%d]", at, j), arg, []any{ctx})
		}
		v.template(at+".config", c.Config, []any{ctx})
		for j, r := range c.Ready {
			v.request(fmt.Sprintf("%s.ready[%d]", at, j), r, []any{ctx})
		}
		if c.Version != nil {
			v.request(at+".version", c.Version.Request, []any{ctx})
			v.given(at+".version.field", c.Version.Field, "name the field of the answer that has the version")
		}
		seen[c.Name] = ctx
	}
	return seen
}

func (v *validation) given(path, text, hint string) {
	if text == "" {
		v.report(path, "missing", hint)
	}
}

func (v *validation) request(at string, r Request, samples []any) {
	v.given(at+".url", r.URL, "add the address that is asked")
	v.template(at+".url", r.URL, samples)
	v.template(at+".body", r.Body, samples)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		v.template(at+".header."+name, r.Header[name], samples)
	}
}

func (v *validation) certificates(d Definition, control map[string]ControlContext) {
	const at = "local.certificates"
	c := d.Local.Certificates
	if c == nil {
		return
	}
	if !d.Provides.MTLS {
		v.report(at, "the mesh does not provide mtls", "add mtls: true to provides, or remove the certificates")
	}
	samples := []any{CertificateContext{Service: "echo", Control: control, Secrets: sampleSecrets}}
	v.given(at+".identity", c.Identity, "add the SPIFFE ID of a service, e.g. spiffe://example.test/{{.Service}}")
	v.given(at+".chain", c.Chain, "name the field of the answer that has the certificate")
	v.given(at+".key", c.Key, "name the field of the answer that has the key")
	v.template(at+".identity", c.Identity, samples)
	v.request(at+".roots", c.Roots, samples)
	v.request(at+".issue", c.Issue, samples)
}

// ordered checks what a sidecar that takes orders from a control plane has besides.
func (v *validation) ordered(at string, s Sidecar, control map[string]ControlContext) {
	for i, r := range s.Register {
		v.request(fmt.Sprintf("%s.register[%d]", at, i), r, sampleContexts(control))
	}
	v.template(at+".inboundListener", s.InboundListener, sampleContexts(control)[:1])
	v.template(at+".outboundListener", s.OutboundListener, sampleOutbounds(control))
	v.template(at+".outboundEndpoints", s.OutboundEndpoints, sampleOutbounds(control))
	b := s.Bootstrap
	if b == nil {
		return
	}
	v.given(at+".bootstrap.program", b.Program, "add the program that prints the configuration")
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
