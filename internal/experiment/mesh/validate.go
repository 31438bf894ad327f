package mesh

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/metric"
)

// maxConcurrency is more worker threads than any machine we know has processors.
const maxConcurrency = 1024

// label is a DNS label (RFC 1123): names become parts of directory names.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// units a verification can count in.
var units = []string{"request", "connection"}

func (v *validation) definition(d Definition) {
	switch {
	case d.Name == "":
		v.report("name", "no name is given", "add name: my-mesh")
	case !label.MatchString(d.Name):
		v.report("name", fmt.Sprintf("found %q, expected lower-case letters, digits and -", d.Name), "")
	}
	if d.Local != nil {
		control := v.controls(d.Local.Control)
		v.certificates(d, control)
		v.sidecar(d.Local.Sidecar, control)
		v.verify(d.Local.Verify, d.Provides.MTLS, control)
	}
	if d.Kubernetes != nil {
		v.kubernetes(*d.Kubernetes, d)
	}
	for i, r := range d.Tasks {
		v.rule(fmt.Sprintf("tasks[%d]", i), r)
	}
}

func (v *validation) sidecar(s Sidecar, control map[string]ControlContext) {
	const at = "local.sidecar"
	if s.Program == "" {
		v.report(at+".program", "no program is given", "add program: envoy, or the path of another")
	}
	if s.Concurrency < 0 || s.Concurrency > maxConcurrency {
		v.report(at+".concurrency", fmt.Sprintf("found %d, expected 1 to %d worker threads", s.Concurrency, maxConcurrency), "")
	}
	for i, arg := range s.Args {
		v.template(fmt.Sprintf("%s.args[%d]", at, i), arg, sampleContexts(control))
	}
	v.template(at+".config", s.Config, sampleContexts(control))
	v.ordered(at, s, control)
}

func (v *validation) verify(ver Verify, mtls bool, control map[string]ControlContext) {
	const at = "local.verify"
	switch {
	case ver == Verify{}:
		v.report(at, "missing: nothing would prove that the data plane is in the path", "name the counters of the sidecar: unit, inbound, outbound")
		return
	case ver.Unit == "":
		v.report(at+".unit", "no unit is given", "expected "+strings.Join(units, " or "))
	case !slices.Contains(units, ver.Unit):
		v.report(at+".unit", fmt.Sprintf("found %q, expected %s", ver.Unit, strings.Join(units, " or ")), "")
	}
	v.template(at+".denied", ver.Denied, sampleContexts(control)[:1])
	for _, c := range []struct{ field, text string }{{"retries", ver.Retries}, {"timeouts", ver.Timeouts}} {
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

func (v *validation) rule(at string, r Rule) {
	if hint, ok := checkPlane(r.Plane); !ok {
		message := fmt.Sprintf("unknown plane %q", r.Plane)
		if r.Plane == "" {
			message = "no plane is given"
		}
		v.report(at+".plane", message, hint)
	}
	patterns := []struct{ field, text string }{
		{"namespace", r.Namespace}, {"pod", r.Pod}, {"service", r.Service}, {"container", r.Container},
	}
	for _, key := range slices.Sorted(maps.Keys(r.PodLabel)) {
		patterns = append(patterns, struct{ field, text string }{"podLabel." + key, r.PodLabel[key]})
	}
	given := len(r.PodLabel)
	for _, p := range patterns {
		if p.text != "" {
			given++
		}
		if star := strings.Index(p.text, "*"); star >= 0 && star != len(p.text)-1 {
			v.report(at+"."+p.field, fmt.Sprintf("found %q: * may only stand at the end", p.text), "rules compare for equality or for a prefix")
		}
	}
	if given == 0 {
		v.report(at, "matches every task", "name a namespace, pod, service, container or podLabel")
	}
}

// checkPlane says whether a rule may put tasks into p. What matches no rule is
// unattributed; no rule says so.
func checkPlane(p metric.Plane) (hint string, ok bool) {
	var names []string
	for _, known := range metric.Planes() {
		if known == metric.Unattributed {
			continue
		}
		if p == known {
			return "", true
		}
		names = append(names, string(known))
	}
	if near, ok := strict.Nearest(string(p), names); ok {
		return "did you mean " + near + "?", false
	}
	return "planes: " + strings.Join(names, ", "), false
}
