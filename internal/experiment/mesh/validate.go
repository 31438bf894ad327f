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

// maxConcurrency is larger than the number of CPUs of any known machine.
const maxConcurrency = 1024

// label is a DNS label (RFC 1123): names become parts of directory names.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// units of verification counters.
var units = []string{UnitRequest, UnitConnection}

func (v *validation) definition(d Definition) {
	switch {
	case d.Name == "":
		v.report("name", "no name is given", "add name: my-mesh")
	case !label.MatchString(d.Name):
		v.report("name", fmt.Sprintf("found %q, expected lower-case letters, digits and -", d.Name), "")
	}
	if d.Local != nil {
		localPart{v}.validate(d)
	}
	if d.Kubernetes != nil {
		clusterPart{v}.validate(*d.Kubernetes, d)
	}
	for i, r := range d.Tasks {
		v.rule(fmt.Sprintf("tasks[%d]", i), r)
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
	conditions := len(r.PodLabel)
	for _, p := range patterns {
		if p.text != "" {
			conditions++
		}
		if star := strings.Index(p.text, "*"); star >= 0 && star != len(p.text)-1 {
			v.report(at+"."+p.field, fmt.Sprintf("found %q: * may only stand at the end", p.text), "rules compare for equality or for a prefix")
		}
	}
	if conditions == 0 {
		v.report(at, "matches every task", "name a namespace, pod, service, container or podLabel")
	}
}

// checkPlane reports whether a rule may assign tasks to p. No rule may assign
// tasks to unattributed, the plane of tasks without a rule, or to node: rules are for pods.
func checkPlane(p metric.Plane) (hint string, ok bool) {
	var names []string
	for _, known := range metric.Planes() {
		if known == metric.Unattributed || known == metric.Node || known == metric.Foreign {
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

// required reports an empty field.
func (v *validation) required(path, text, hint string) {
	if text == "" {
		v.report(path, "missing", hint)
	}
}

// oneOf reports a value outside words.
func (v *validation) oneOf(path, found string, words ...string) {
	if slices.Contains(words, found) {
		return
	}
	hint := ""
	if near, ok := strict.Nearest(found, words); ok {
		hint = "did you mean " + near + "?"
	}
	v.report(path, fmt.Sprintf("found %q, expected %s", found, strings.Join(words, ", ")), hint)
}

func (v *validation) request(at string, r Request, samples []any) {
	v.required(at+".url", r.URL, "add its URL")
	v.template(at+".url", r.URL, samples)
	v.template(at+".body", r.Body, samples)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		v.template(at+".header."+name, r.Header[name], samples)
	}
}

func (v *validation) workload(here string, w Workload) {
	v.required(here+".name", w.Name, "add its name")
	v.oneOf(here+".kind", w.Kind, "Deployment", "StatefulSet", "DaemonSet")
	if w.Scaled && w.Kind == "DaemonSet" {
		v.report(here+".scaled", "a DaemonSet has as many pods as there are nodes", "remove it")
	}
}
