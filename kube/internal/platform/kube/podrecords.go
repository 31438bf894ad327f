package kube

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
)

// Bounds of the logs that are kept.
const (
	logsTimeout   = 20 * time.Second
	maxLog        = 4 << 20 // bytes of each container
	parallelLogs  = 8
	maxListedPods = 500
)

// podRecords keeps the trial's pods, image digests and container logs in the provenance directory.
type podRecords struct {
	*trial
	pods    *trialPods
	archive archive
}

// savePods writes the pods as the cluster has them: with node, image digests and injected containers.
func (r *podRecords) savePods() error {
	if !r.archive.Enabled() {
		return nil
	}
	var b strings.Builder
	for _, pod := range r.pods.all() {
		pod = pod.DeepCopy()
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		text, err := yaml.Marshal(pod)
		if err != nil {
			return fmt.Errorf("keep pod %s: %w", pod.Name, err)
		}
		fmt.Fprintf(&b, "---\n# %s\n%s", r.pods.name(pod), text)
	}
	if err := r.archive.Write(podsFile, []byte(b.String())); err != nil {
		return fmt.Errorf("keep the pods: %w", err)
	}
	return nil
}

// checkDigests refuses an image with another digest than platform.digests requires, and writes all digests.
func (r *podRecords) checkDigests() error {
	images, err := r.digests()
	if err != nil || !r.archive.Enabled() || len(images) == 0 {
		return err
	}
	var b strings.Builder
	b.WriteString("# Image digests of this trial. Copy them to platform.digests to require them in other runs.\n")
	for _, image := range slices.Sorted(maps.Keys(images)) {
		line, err := yaml.Marshal(map[string]string{image: images[image]})
		if err != nil {
			return fmt.Errorf("keep the image digests: %w", err)
		}
		b.Write(line)
	}
	if err := r.archive.Write(imagesFile, []byte(b.String())); err != nil {
		return fmt.Errorf("keep the image digests: %w", err)
	}
	return nil
}

// digests are the image digests of the trial's pods, including images of a mesh or a chart. A digest that
// platform.digests contradicts is an error.
func (r *podRecords) digests() (map[string]string, error) {
	images := map[string]string{}
	for _, pod := range r.pods.all() {
		names := map[string]string{}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			names[c.Name] = imageName(c.Image)
		}
		for _, s := range statuses(pod) {
			image, digest := names[s.Name], digestOf(s)
			if image == "" || digest == "" {
				continue
			}
			if want := r.options.Digests[image]; want != "" && want != digest {
				return nil, hint.New("the image changed, or the node has another image of this name; if this is intended, update platform.digests",
					"container %s of pod %s has image %s with digest %s, platform.digests requires %s", s.Name, r.pods.name(pod), image, digest, want)
			}
			images[image] = digest
		}
	}
	return images, nil
}

// imageName is an image reference without its digest, the key of platform.digests.
func imageName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	return name
}

// digestOf is the image digest in a container's status, or "".
func digestOf(s corev1.ContainerStatus) string {
	if i := strings.LastIndex(s.ImageID, "sha256:"); i >= 0 {
		return s.ImageID[i:]
	}
	return ""
}

// saveLogs writes the logs of the trial's containers. A log that cannot be read is skipped: removal must go on.
func (r *podRecords) saveLogs(ctx context.Context) {
	if !r.archive.Enabled() || r.cluster.DryRun() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logsTimeout)
	defer cancel()
	list, err := r.cluster.Typed().CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{Limit: maxListedPods, LabelSelector: "!" + labelBackground})
	if err != nil {
		return
	}
	var saving errgroup.Group
	saving.SetLimit(parallelLogs)
	for i := range list.Items {
		pod := &list.Items[i]
		if !r.owns(pod) {
			continue
		}
		for _, s := range statuses(pod) {
			if s.State.Waiting == nil || s.RestartCount > 0 {
				file := r.archive.Path(r.pods.name(pod) + "-" + s.Name + ".log")
				saving.Go(routine.Guarded(func() error { r.saveLog(ctx, pod, s, file); return nil }))
			}
		}
	}
	_ = saving.Wait()
}

// saveLog appends a container's log to a file, after the log of its previous instance if it was restarted.
func (r *podRecords) saveLog(ctx context.Context, pod *corev1.Pod, s corev1.ContainerStatus, file string) {
	limit, instances := int64(maxLog), []bool{false}
	if s.RestartCount > 0 {
		instances = []bool{true, false}
	}
	for _, previous := range instances {
		body, err := r.cluster.Typed().CoreV1().Pods(r.namespace).GetLogs(pod.Name,
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
