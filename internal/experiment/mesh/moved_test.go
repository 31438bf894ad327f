package mesh

import (
	"slices"
	"testing"
)

// A new proxy with the image of the old version, or of a third one, makes the move incomplete. So does a chosen image that it does
// not run. Proxies with versions of their own need another image only if the control plane has one.
func TestMovedCompletely(t *testing.T) {
	const hub = "localhost:5000/mesh/"
	for name, c := range map[string]struct {
		from, to, before, after, chosen string // images of control plane and proxies
		left                            bool
	}{
		"to another version":        {"pilot:1.30.0", "pilot:1.31.0", "proxyv2:1.30.0", "proxyv2:1.31.0", "", false},
		"to the old proxy":          {"pilot:1.30.0", "pilot:1.31.0", "proxyv2:1.30.0", "proxyv2:1.30.0", "", true},
		"to a third proxy":          {"pilot:1.30.0", "pilot:1.31.0", "proxyv2:1.30.0", "proxyv2:1.29.0", "", true},
		"to another revision":       {"pilot:1.31.0", "pilot:1.31.0", "proxyv2:1.31.0", "proxyv2:1.31.0", "", false},
		"revision with other proxy": {"pilot:1.31.0", "pilot:1.31.0", "proxyv2:1.31.0", "proxyv2:1.30.0", "", true},
		"versions of their own":     {"control:2.1", "control:2.2", "proxy:v7", "proxy:v8", "", false},
		"own version stays":         {"control:2.1", "control:2.2", "proxy:v7", "proxy:v7", "", true},
		"own version, revision":     {"control:2.1", "control:2.1", "proxy:v7", "proxy:v7", "", false},
		"digests":                   {"control@sha256:aa", "control@sha256:bb", "proxy@sha256:cc", "proxy@sha256:cc", "", true},
		"chosen":                    {"pilot:1.30.0", "pilot:1.31.0", "proxyv2:1.30.0", "mine:7", "mine:7", false},
		"chosen, not run":           {"pilot:1.30.0", "pilot:1.31.0", "proxyv2:1.30.0", "proxyv2:1.31.0", "mine:7", true},
	} {
		var m Moved
		m.Begin([]string{hub + c.from}, []string{hub + c.to}, map[string][]string{"a": {hub + c.before}, "b": {hub + c.before}})
		m.End(map[string][]string{"c": {hub + c.after}, "d": {hub + c.after}}, c.chosen)
		if want := map[bool][]string{true: {"c", "d"}}[c.left]; !slices.Equal(m.Left, want) || m.Proxies != 2 {
			t.Errorf("%s: left %q of %d proxies, want %q of 2", name, m.Left, m.Proxies, want)
		}
	}
}

// The version is the tag, also with the port of a registry and a digest beside it.
func TestVersionOfImages(t *testing.T) {
	for want, images := range map[string][]string{
		"1.31.0":        {"registry.istio.io/release/pilot:1.31.0", "pilot:1.31.0@sha256:aa"},
		"1.30.0, v2":    {"a:v2", "localhost:5000/b:1.30.0"},
		"latest":        {"localhost:5000/pilot"},
		"sha256:aa":     {"localhost:5000/pilot@sha256:aa"},
		"1.31.0-dev.ab": {"tare.test/istio/proxyv2:1.31.0-dev.ab"},
	} {
		if got := versionOf(images); got != want {
			t.Errorf("%q: version %q, want %q", images, got, want)
		}
	}
}
