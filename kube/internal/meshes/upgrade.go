package meshes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Revision is a further control plane in the namespace of a mesh, to which applications move.
type Revision struct {
	installer *installer
	name      string
}

// Revision prepares a further control plane with the version, charts and settings of a variant of the mesh. Empty means its own.
// The charts that all revisions share are not installed again.
func (b *Batch) Revision(name, variant string) (*Revision, error) {
	next, err := b.definition.NextRevision(name)
	if err != nil {
		return nil, err
	}
	i := *b.instance
	i.definition, i.k = next, *next.Kubernetes
	if variant != "" {
		to := b.choose(variant)
		if i.settings, err = i.k.Complete(to.Settings); err != nil {
			return nil, fmt.Errorf("mesh %s: %w", variant, err)
		}
		i.options.Charts = to.Options.Charts
	}
	n := newInstaller(&i)
	n.others, n.suffix = true, "-"+name
	return &Revision{n, name}, nil
}

// Install installs the control plane, and returns when it is ready. [Revision.Remove] removes it, or the removal of the mesh.
func (r *Revision) Install(ctx context.Context) error {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, InstallWithin)
	defer cancel()
	n := r.installer
	info, err := readClusterInfo(ctx, n.cluster, n.options.ServiceCIDR)
	if err != nil {
		return n.failed("install revision "+r.name+" of", err)
	}
	in, err := n.templateValues(info)
	if err == nil {
		_, err = n.installCharts(ctx, in)
	}
	if err == nil {
		err = n.waitReady(ctx)
	}
	if err != nil {
		return n.failed("install revision "+r.name+" of", err)
	}
	return nil
}

// Remove removes the control plane, also one that is not complete.
func (r *Revision) Remove(ctx context.Context) error {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, UninstallWithin)
	defer cancel()
	n := r.installer
	var err error
	for _, c := range n.k.Charts {
		if !n.shared(c.Release) {
			err = errors.Join(err, n.helm().Uninstall(ctx, n.k.Namespace, c.Release+n.suffix))
		}
	}
	if err != nil {
		return n.failed("uninstall revision "+r.name+" of", err)
	}
	return nil
}

// Enrol renders what puts a namespace under the revision.
func (r *Revision) Enrol(namespace string, way mesh.Way) (mesh.Enrolled, error) {
	return r.installer.k.Enrol(r.installer.settings, namespace, way)
}

// ProxyImage is the image that the settings give its proxies, empty for the image of its version.
func (r *Revision) ProxyImage() string { return r.installer.settings.Proxy.Image }

// ControlImages are [ControlImages] of the revision.
func (r *Revision) ControlImages(ctx context.Context) ([]string, error) {
	return ControlImages(ctx, r.installer.cluster, r.installer.k)
}

// ControlImages are the images of the pods of a control plane's workloads.
func ControlImages(ctx context.Context, c *cluster.Cluster, k mesh.Kubernetes) (images []string, err error) {
	pods, err := podReader{c}.list(ctx, k.Namespace)
	if err != nil {
		return nil, err
	}
	for _, w := range k.Workloads {
		o, err := c.Get(ctx, RefOf(w, k.Namespace))
		if err != nil {
			return nil, err
		}
		selected, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
		if err != nil {
			return nil, fmt.Errorf("read the selector of %s: %w", w.Name, err)
		}
		for _, pod := range pods {
			if !labels.SelectorFromSet(selected).Matches(labels.Set(pod.Labels)) {
				continue
			}
			for _, container := range pod.Spec.Containers {
				images = append(images, container.Image)
			}
		}
	}
	slices.Sort(images)
	return slices.Compact(images), nil
}

// ProxyImages are the images of a mesh's proxies in a pod of an application.
func ProxyImages(k mesh.Kubernetes, pod *corev1.Pod) (images []string) {
	for _, x := range k.Proxies {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if x.In == mesh.InPod && mesh.Match(x.Container, c.Name) {
				images = append(images, c.Image)
			}
		}
	}
	return images
}
