package mesh

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Two versions of Istio are revisions: each has a control plane, injection and configuration of its own, and its
// control plane is attributed in its own namespace.
func TestRevisions(t *testing.T) {
	istio := must.Get(Load("istio"))(t)
	var all []Definition
	for _, name := range []string{"istio-1.29", "istio-1.30"} {
		d := istio
		d.Name, d.From = name, "istio"
		d = must.Get(d.AsRevision())(t)
		all = append(all, d)
	}
	if err := Coexist(all...); err != nil {
		t.Errorf("they cannot be side by side: %v", err)
	}
	d, home := all[0], "istio-system-istio-1-29"
	k := *d.Kubernetes
	if d := difftest.Of("k.Namespace", k.Namespace, home, "k.Workloads[0].Name", k.Workloads[0].Name, "istiod-istio-1-29", "k.Webhooks[0].Name", k.Webhooks[0].Name, "istio-sidecar-injector-istio-1-29-"+home); d != "" {
		t.Errorf("%s: %+v %+v in %s", d, k.Workloads, k.Webhooks, k.Namespace)
	}
	e, err := k.Enrol(Settings{}, "shop", Way{LoadInside: true})
	if err != nil || len(e.Namespace.Labels) != 1 || e.Namespace.Labels["istio.io/rev"] != "istio-1-29" {
		t.Errorf("a namespace is enrolled by %v, %v", e.Namespace.Labels, err)
	}
	s := must.Get(k.Complete(Settings{Version: "1.29.2"}))(t)
	releases := must.Get(k.Releases(s, k.InstallContext(s)))(t)
	text := must.Get(json.Marshal(releases))(t)
	for _, want := range []string{`"revision":"istio-1-29"`, `"discoverySelectors":[{"matchLabels":{"istio.io/rev":"istio-1-29"}},{"matchLabels":{"kubernetes.io/metadata.name":"` + home + `"}}]`,
		`"defaultRevision":""`, `"istioNamespace":"` + home + `"`} {
		must.Contain(t, string(text), want)
	}
	for namespace, want := range map[string]string{home: "control", "istio-system": "unattributed", "istio-system-istio-1-30": "unattributed"} {
		if got := d.Attribute(Task{Namespace: namespace, Container: "discovery"}).Plane; string(got) != want {
			t.Errorf("istiod in %s is %s, want %s", namespace, got, want)
		}
	}
	// The definition itself is as before.
	if istio.Kubernetes.Namespace != "istio-system" || istio.Kubernetes.Workloads[0].Name != "istiod" || istio.Attribute(Task{Namespace: "istio-system"}).Plane != "control" {
		t.Errorf("istio has changed: %+v", istio.Kubernetes)
	}
}

// A mesh without revisions has none, and a name must fit into the names of Services.
func TestNoRevision(t *testing.T) {
	for name, want := range map[string]string{"consul": "mesh consul has no revisions", "istio": "too long for a revision"} {
		d := must.Get(Load(name))(t)
		if name == "istio" {
			d.Name = strings.Repeat("x", 41)
		}
		must.Fail(t, must.Err(d.AsRevision()), want, name)
	}
}

// A definition whose revisions name what it does not have is refused at the field.
func TestRevisionMistakes(t *testing.T) {
	d := must.Get(embedded.ReadFile("definitions/istio.yaml"))(t)
	for change, want := range map[[2]string]string{
		{"shared: [istio-base]", "shared: [base]"}:                              `kubernetes.revisions.shared[0]: there is no release "base"`,
		{`"istiod-{{.Revision}}"`, `"istiod-{{.Revison}}"`}:                     "kubernetes.revisions.workloads[0].name: invalid template",
		{`{istio.io/rev: "{{.Revision}}"}`, `{istio.io/rev: "{{.Revision}"}`}:   "kubernetes.revisions.namespace.labels.istio.io/rev: invalid template",
		{"      istio-base: |\n        defaultRev", "      base: |\n        d"}: `kubernetes.revisions.values.base: there is no release "base"`,
	} {
		text := strings.Replace(string(d), change[0], change[1], 1)
		if text == string(d) {
			t.Fatalf("the definition lacks %q", change[0])
		}
		must.Fail(t, must.Err(Decode("istio.yaml", []byte(text))), want, change[1])
	}
}
