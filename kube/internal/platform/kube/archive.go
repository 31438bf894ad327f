package kube

import (
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Files of a trial's provenance directory.
const (
	manifestsFile = "manifests.yaml" // as applied, for kubectl
	podsFile      = "pods.yaml"      // as the cluster has them once they are ready
	imagesFile    = "images.yaml"    // image digests, as platform.digests takes them
	chartFile     = "chart.yaml"     // the rendered chart
	valuesFile    = "chart-values.yaml"
	callsFile     = "calls.yaml" // calls between services, where the file does not declare them
	meshDir       = "mesh"       // directory of the mesh's files
)

// compressAbove is the size above which a file of the mesh is compressed, in bytes. A proxy's configuration has
// megabytes, and every trial has one for each proxy.
const compressAbove = 64 << 10

// archive is the provenance directory of a trial.
type archive struct{ platform.Provenance }

// manifest adds an applied manifest, without the values of a Secret.
func (a archive) manifest(m cluster.Manifest) error {
	text := m.YAML
	if m.Ref.Kind.GroupKind() == cluster.KindSecret.GroupKind() {
		var err error
		if text, err = redactSecret(text); err != nil {
			return err
		}
	}
	return a.Append(manifestsFile, "---\n# %s\n%s", m.Ref, text)
}

// redactSecret is a Secret's manifest with its keys and without their values.
func redactSecret(text []byte) ([]byte, error) {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
		return nil, err
	}
	return yaml.Marshal(withoutSecrets(o).Object)
}

// meshFile writes one file of the mesh, compressed if it is large.
func (a archive) meshFile(name string, content []byte) error {
	name = meshDir + "/" + name
	if err := os.MkdirAll(filepath.Dir(a.Path(name)), 0o700); err != nil {
		return err
	}
	return a.WriteLarge(name, content, compressAbove)
}
