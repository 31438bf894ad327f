package kube

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// imagesFile, in a trial's provenance directory, has the digests of the images that came, as platform.digests takes them.
const imagesFile = "images.yaml"

// named is the reference under which an image is pinned.
func named(image string) string {
	name, _, _ := strings.Cut(image, "@")
	return name
}

// digestOf is what a container's status says its image is; empty: nothing.
func digestOf(s corev1.ContainerStatus) string {
	if i := strings.LastIndex(s.ImageID, "sha256:"); i >= 0 {
		return s.ImageID[i:]
	}
	return ""
}

// came are the digests of the images of the trial's pods, those that a mesh or a chart brought included.
func (d *deployment) came() (map[string]string, error) {
	images := map[string]string{}
	for _, pod := range d.own() {
		asked := map[string]string{}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			asked[c.Name] = named(c.Image)
		}
		for _, s := range statuses(pod) {
			image, digest := asked[s.Name], digestOf(s)
			if image == "" || digest == "" {
				continue
			}
			if want := d.platform.options.Digests[image]; want != "" && want != digest {
				return nil, &Error{fmt.Errorf("container %s of pod %s has image %s with digest %s, and platform.digests says %s", s.Name, d.podName(pod), image, digest, want),
					"the image has changed, or the node has another one under this name: if that is as it should be, write down the new digest"}
			}
			images[image] = digest
		}
	}
	return images, nil
}

// holdDigests refuses images that are not those that were said, and keeps the digests of all that came.
func (d *deployment) holdDigests(context.Context) error {
	if d.pods == nil {
		return nil
	}
	images, err := d.came()
	if err != nil || d.spec.Provenance == "" || len(images) == 0 {
		return err
	}
	var b strings.Builder
	b.WriteString("# The images of this trial. Under platform.digests other trials are held to them.\n")
	for _, image := range slices.Sorted(maps.Keys(images)) {
		line, err := yaml.Marshal(map[string]string{image: images[image]})
		if err != nil {
			return fmt.Errorf("keep the images' digests: %w", err)
		}
		b.Write(line)
	}
	if err := os.WriteFile(filepath.Join(d.spec.Provenance, imagesFile), []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("keep the images' digests: %w", err)
	}
	return nil
}
