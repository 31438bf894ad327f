package kube

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/run/platform"
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
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for _, name := range []string{"data", "stringData"} {
		if values, ok := fields[name].(map[string]any); ok {
			for key := range values {
				values[key] = "not kept"
			}
		}
	}
	return yaml.Marshal(fields)
}

// meshFile writes one file of the mesh, compressed if it is large.
func (a archive) meshFile(name string, content []byte) error {
	path := a.Path(meshDir + "/" + name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if len(content) > compressAbove {
		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		if _, err := w.Write(content); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		path, content = path+".gz", small.Bytes()
	}
	return os.WriteFile(path, content, 0o600)
}
