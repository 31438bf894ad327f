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

// Image is the image of a running container.
type Image struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Image     string `json:"image"`
	Digest    string `json:"digest"` // as the container runtime reports it
}

// archiver keeps the configuration and images of a running mesh.
type archiver struct {
	*instance
	reader podReader
}

// run implements [Mesh.Archive].
func (a *archiver) run(ctx context.Context, namespace string) error {
	if a.options.Archive == nil || a.definition.Kubernetes == nil {
		return nil
	}
	var images []Image
	var groups podGroups
	for _, ns := range []string{a.k.Namespace, namespace} {
		if ns == "" {
			continue
		}
		pods, err := a.reader.list(ctx, ns)
		if err != nil {
			return a.failed("archive", err)
		}
		for _, p := range pods {
			images = append(images, imagesOf(p)...)
		}
		if ns == namespace {
			groups = groupPods(pods, Target{LoadInside: true, IsLoad: func(*corev1.Pod) bool { return false }}, a.proxies(true))
		}
	}
	text, err := json.MarshalIndent(images, "", "  ")
	if err != nil {
		return a.failed("archive", err)
	}
	if err := a.keep("images.json", text); err != nil {
		return err
	}
	for _, x := range a.proxies(true) {
		pods, err := a.reader.podsOf(ctx, x, a.k.Namespace, groups)
		if err != nil {
			return a.failed("archive", err)
		}
		for _, p := range pods {
			for _, f := range x.Archive {
				name := path.Join("proxies", p.Namespace+"-"+p.Name+"-"+f.Name)
				body, err := a.reader.get(ctx, p, f.Port, f.Path)
				if err != nil {
					name, body = name+".error", []byte(err.Error()+"\n")
				}
				if err := a.keep(name, body); err != nil {
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
