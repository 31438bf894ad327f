package kube

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/kube/meshes"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// meshChecks has the mesh prove, with the probes, that it is in force, and keeps what really runs of it.
func (d *deployment) meshChecks(ctx context.Context) ([]platform.Check, error) {
	installed := d.platform.options.Meshes
	outside := d.newStranger()
	checks, err := installed.Verify(ctx, meshes.Target{
		Namespace:  d.namespace,
		LoadInside: d.enrolment.loadInside,
		Front:      d.enrolment.front,
		Traffic:    d.part,
		IsLoad:     func(pod *corev1.Pod) bool { return pod.Labels[labelService] == loadService },
		Probe:      d.answered,
		Plaintext:  outside.ask,
	})
	err = errors.Join(err, outside.leave(ctx))
	if err != nil || d.spec.Provenance == "" {
		return checks, err
	}
	return checks, installed.Archive(ctx, d.namespace, d.keepMesh)
}

// meshDir holds, in a trial's provenance directory, what is kept of its mesh.
const meshDir = "mesh"

// compressOver is the size from which a file of the mesh's is compressed, bytes: a proxy's configuration has megabytes,
// and there is one for each proxy of each trial.
const compressOver = 64 << 10

// keepMesh keeps one file of the mesh's.
func (d *deployment) keepMesh(name string, content []byte) error {
	path := filepath.Join(d.spec.Provenance, meshDir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if len(content) > compressOver {
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
