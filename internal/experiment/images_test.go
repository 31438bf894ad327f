package experiment_test

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

func TestImagesOfGenerators(t *testing.T) {
	onCluster := known
	onCluster.Platforms, onCluster.Generators = []string{"local", "kubernetes"}, []string{"tare", "oha"}
	const head = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nfactors: {rate: [100]}\n"
	for text, want := range map[string]string{
		"platform: {kind: kubernetes, images: {oha: 'r/oha:1'}}":                          "",
		"platform: {kind: kubernetes, images: {oha: {image: 'r/oha:1', path: /bin/oha}}}": "",
		"platform: {kind: kubernetes, images: {oha: {image: 'r/oha:1', path: oha}}}":      "not an absolute path",
		"platform: {kind: kubernetes, images: {oah: 'r/oha:1'}}":                          "no load generator of this name",
		"platform: {kind: kubernetes, images: {oha: ''}}":                                 "not an image reference",
		"platform: {images: {oha: 'r/oha:1'}}":                                            "the platform is local",
		"platform: {kind: kubernetes, images: {oha: 'r/oha:1'}}\nload: {from: outside}":   "programs of this machine",
	} {
		e, err := experiment.Parse("x.yaml", []byte(head+text+"\n"), onCluster)
		must.Match(t, err, want, text)
		if err == nil && e.Platform.Images["oha"].Image != "r/oha:1" {
			t.Errorf("%s: %v", text, e.Platform.Images)
		}
	}
}
