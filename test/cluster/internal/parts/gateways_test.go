package parts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// The definitions that tare ships install the version that is built here.
func TestGatewaysOfTheRepository(t *testing.T) {
	for _, name := range Gateways() {
		g := must.Get(FindGateway(name, "."))(t)
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "internal", "experiment", "mesh", "definitions", name+".yaml"))
		if err != nil || !strings.Contains(string(text), "\n  version: "+g.Version()+"\n") {
			t.Errorf("%s: go.mod pins %s, the definition has another version, %v", name, g.Version(), err)
		}
		one := must.Get(g.Cached("/cache", "envoy1"))(t)
		if other, err := g.Cached("/cache", "envoy2"); err != nil || other == one {
			t.Errorf("%s: with another Envoy the cache has %s too, %v", name, other.Dir, err)
		}
	}
	if _, err := FindGateway("contour", t.TempDir()); err == nil {
		t.Error("a module was found in an empty directory")
	}
}

// Images of a published chart are replaced by ours.
func TestGatewayNamesImagesMadeHere(t *testing.T) {
	for name, c := range map[string]struct{ object, file, copied, before, after string }{
		"envoy-gateway": {"gateway-helm", "values.tmpl.yaml", "values.yaml",
			"    envoyGateway:\n      image: ${GatewayImage}\n      pullPolicy: ${GatewayImagePullPolicy}\n    envoyProxy:\n      # the proxy's\n      image: \"\"\n",
			"    envoyGateway:\n      image: tare.test/envoy-gateway/controller:v1\n      pullPolicy: IfNotPresent\n    envoyProxy:\n      # the proxy's\n      image: tare.test/envoy-gateway/envoy:v1\n"},
		"contour": {"contour-gateway-provisioner", "03-gateway-provisioner.yaml", "03-gateway-provisioner.yaml",
			"      - args:\n        - --enable-leader-election\n        image: registry.test/contour:v0\n",
			"      - args:\n        - --enable-leader-election\n        - --contour-image=tare.test/contour/controller:v1\n        - --envoy-image=tare.test/contour/envoy:v1\n" +
				"        image: tare.test/contour/controller:v1\n"},
	} {
		from, to := t.TempDir(), filepath.Join(t.TempDir(), "charts", c.object)
		must.OK(t, os.WriteFile(filepath.Join(from, c.file), []byte(c.before), 0o600))
		must.OK(t, gateways[name].objects[c.object].edits.copy(to, from, "v1"))
		if got, err := os.ReadFile(filepath.Join(to, c.copied)); err != nil || string(got) != c.after {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}
