package kube

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// Files in a trial's provenance directory.
const (
	manifestsFile = "manifests.yaml" // as they were applied, for kubectl
	podsFile      = "pods.yaml"      // as they came to be
)

// Bounds of the logs that are kept.
const (
	keepLogsFor  = 20 * time.Second
	maxLog       = 4 << 20 // bytes of each container
	logsAtOnce   = 8
	maxPodsAsked = 500
)

// archive keeps a manifest; a secret's values are not kept.
func (d *deployment) archive(m cluster.Manifest) error {
	if d.spec.Provenance == "" {
		return nil
	}
	text := m.YAML
	if m.Ref.Kind.GroupKind() == cluster.KindSecret.GroupKind() {
		var err error
		if text, err = withoutValues(text); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(filepath.Join(d.spec.Provenance, manifestsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "---\n# %s\n%s", m.Ref, text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// withoutValues is a Secret's manifest with the keys alone.
func withoutValues(text []byte) ([]byte, error) {
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

// keepPods keeps the pods as they came to be: on which node, with what images by digest, and with what others put in.
func (d *deployment) keepPods(context.Context) error {
	if d.spec.Provenance == "" || d.pods == nil {
		return nil
	}
	var b strings.Builder
	for _, pod := range d.own() {
		pod = pod.DeepCopy()
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		text, err := yaml.Marshal(pod)
		if err != nil {
			return fmt.Errorf("keep pod %s: %w", pod.Name, err)
		}
		fmt.Fprintf(&b, "---\n# %s\n%s", d.podName(pod), text)
	}
	if err := os.WriteFile(filepath.Join(d.spec.Provenance, podsFile), []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("keep the pods: %w", err)
	}
	return nil
}

// keepLogs keeps what the containers wrote. One that cannot be had is no error: removing goes first.
func (d *deployment) keepLogs(ctx context.Context) {
	if d.spec.Provenance == "" || d.cluster.DryRun() || len(d.made) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepLogsFor)
	defer cancel()
	list, err := d.cluster.Typed().CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{Limit: maxPodsAsked})
	if err != nil {
		return
	}
	var keeping errgroup.Group
	keeping.SetLimit(logsAtOnce)
	for i := range list.Items {
		pod := &list.Items[i]
		if !d.isOwn(pod) {
			continue
		}
		for _, s := range statuses(pod) {
			if s.State.Waiting == nil || s.RestartCount > 0 {
				file := filepath.Join(d.spec.Provenance, d.podName(pod)+"-"+s.Name+".log")
				keeping.Go(func() error { d.keepLog(ctx, pod, s, file); return nil })
			}
		}
	}
	_ = keeping.Wait()
}

// keepLog appends a container's log to a file, the one before its restart first.
func (d *deployment) keepLog(ctx context.Context, pod *corev1.Pod, s corev1.ContainerStatus, file string) {
	limit, before := int64(maxLog), []bool{false}
	if s.RestartCount > 0 {
		before = []bool{true, false}
	}
	for previous := range slices.Values(before) {
		body, err := d.cluster.Typed().CoreV1().Pods(d.namespace).GetLogs(pod.Name,
			&corev1.PodLogOptions{Container: s.Name, Previous: previous, LimitBytes: &limit}).Stream(ctx)
		if err != nil {
			continue
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = io.Copy(f, io.LimitReader(body, maxLog))
			f.Close()
		}
		body.Close()
	}
}
