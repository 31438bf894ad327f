package meshes

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Image is what a container really runs.
type Image struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Image     string `json:"image"`
	Digest    string `json:"digest"` // as the container runtime tells it
}

// Archive keeps what really runs: the configuration of each proxy as it says it itself, and the digests of all images.
// What a proxy does not answer is said in its file's place and does not end the archive.
func (m *Mesh) Archive(ctx context.Context, namespace string) error {
	if m.o.Archive == nil || m.definition.Kubernetes == nil {
		return nil
	}
	var images []Image
	var d divided
	for _, ns := range []string{m.k.Namespace, namespace} {
		if ns == "" {
			continue
		}
		pods, err := m.pods(ctx, ns, "")
		if err != nil {
			return m.failed("archive", err)
		}
		for _, p := range pods {
			images = append(images, imagesOf(p)...)
		}
		if ns == namespace {
			d = m.split(pods, Target{LoadInside: true, IsLoad: func(*corev1.Pod) bool { return false }})
		}
	}
	text, err := json.MarshalIndent(images, "", "  ")
	if err != nil {
		return m.failed("archive", err)
	}
	if err := m.archive("images.json", text); err != nil {
		return err
	}
	for _, x := range m.proxies(true) {
		pods, err := m.stand(ctx, x, d)
		if err != nil {
			return m.failed("archive", err)
		}
		for _, p := range pods {
			for _, a := range x.Archive {
				name := path.Join("proxies", p.Namespace+"-"+p.Name+"-"+a.Name)
				body, err := m.ask(ctx, p, a.Port, a.Path)
				if err != nil {
					name, body = name+".error", []byte(err.Error()+"\n")
				}
				if err := m.archive(name, body); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func imagesOf(p *corev1.Pod) []Image {
	var all []Image
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		all = append(all, Image{p.Namespace, p.Name, s.Name, s.Image, s.ImageID})
	}
	slices.SortFunc(all, func(a, b Image) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}
