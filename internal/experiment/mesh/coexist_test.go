package mesh

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// Meshes are in one cluster at the same time if they declare it and have control planes of their own.
func TestCoexist(t *testing.T) {
	for names, want := range map[string]string{
		"none": "", "none istio": "", "istio istio none": "", "istio linkerd none": "", "linkerd istio-ambient": "", "consul consul": "",
		"none consul":         "mesh consul may act on the namespaces of others",
		"istio istio-ambient": "meshes istio and istio-ambient have their control planes in the same namespace, istio-system",
	} {
		var all []Definition
		for name := range strings.FieldsSeq(names) {
			d := must.Get(Load(name))(t)
			all = append(all, d)
		}
		must.Match(t, Coexist(all...), want, names)
	}
}
