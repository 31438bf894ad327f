package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/platform/kube"
)

// generatorsInImages replaces programs by those in images: the load is sent from the cluster.
func generatorsInImages(x *experiment.Experiment, all map[string]generator.Generator) (map[string]generator.Generator, error) {
	images, err := generatorImages(x)
	if err != nil {
		return nil, err
	}
	for name, g := range all {
		if !g.Abilities().Foreign() {
			continue
		}
		in := "in the image of tare-agent"
		if i, ok := images[name]; ok {
			in = "image " + i.Reference()
			switch digest := x.Platform.Digests[i.Image]; {
			case digest != "":
				in += ", held to " + digest
			case i.Digest == "":
				in += " (by its tag)"
			}
		}
		all[name] = generator.Elsewhere(g, in)
	}
	return all, nil
}

// generatorImages are the images of load generators: the built-in ones, with the changes of the experiment.
func generatorImages(x *experiment.Experiment) (map[string]kube.GeneratorImage, error) {
	all, err := kube.GeneratorImages()
	if err != nil {
		return nil, err
	}
	for name, chosen := range x.Platform.Images {
		if chosen.Image == experiment.ProgramsImage {
			delete(all, name)
			continue
		}
		all[name] = kube.GeneratorImage{Image: chosen.Image, Path: cmp.Or(chosen.Path, all[name].Path), User: all[name].User}
	}
	return all, nil
}

// copiedKinds are the objects of a running application that a trial needs. Objects of other kinds are listed, and not
// copied: they belong to operators, or reach beyond the namespace.
var copiedKinds = []schema.GroupResource{
	{Resource: "configmaps"}, {Resource: "secrets"}, {Resource: "serviceaccounts"}, {Resource: "services"}, {Resource: "persistentvolumeclaims"}, {Resource: "pods"},
	{Resource: "resourcequotas"}, {Resource: "limitranges"},
	{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "statefulsets"}, {Group: "apps", Resource: "daemonsets"}, {Group: "apps", Resource: "replicasets"},
	{Group: "batch", Resource: "jobs"}, {Group: "batch", Resource: "cronjobs"},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"},
	{Group: "networking.k8s.io", Resource: "ingresses"}, {Group: "networking.k8s.io", Resource: "networkpolicies"},
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}, {Group: "rbac.authorization.k8s.io", Resource: "rolebindings"},
}

// copied reads the application that runs in a namespace. It changes nothing.
func copied(ctx context.Context, p experiment.Platform, namespace string) (*manifest.Set, error) {
	k, err := cluster.Connect(ctx, cluster.Options{Kubeconfig: p.Kubeconfig, Context: p.Context})
	if err != nil {
		return nil, err
	}
	if _, err := k.Get(ctx, cluster.Ref{Kind: cluster.KindNamespace, Name: namespace}); cluster.IsNotFound(err) {
		return nil, hint.New("`kubectl get namespaces` lists those of the cluster", "%s has no namespace %s", k.Name(), namespace)
	}
	found, err := k.Contents(ctx, namespace, copiedKinds)
	if err != nil {
		err = fmt.Errorf("copy namespace %s: %w", namespace, err)
		if cluster.IsForbidden(err) {
			return nil, hint.Wrap(err, "copying needs permission to list the namespace's objects, its Secrets included. An administrator grants it: `tare cluster rbac --for FILE --subject user:NAME | kubectl apply -f -`")
		}
		return nil, err
	}
	objects := lists.Map(found, func(o unstructured.Unstructured) manifest.Object { return o.Object })
	set, err := manifest.New("namespace "+namespace, objects, true)
	if err != nil {
		return nil, err
	}
	return set, noteOthers(ctx, k, namespace, set)
}

// noteOthers lists objects of kinds that are not copied.
func noteOthers(ctx context.Context, k *cluster.Cluster, namespace string, set *manifest.Set) error {
	others, _ := k.Objects(ctx, cluster.Query{Namespace: namespace, Kinds: func(r schema.GroupResource) bool { return !slices.Contains(copiedKinds, r) }})
	for _, o := range others {
		if !o.Owned && o.Namespace == namespace && o.Kind.Group != "coordination.k8s.io" {
			set.Notes = append(set.Notes, manifest.Note{About: o.Kind.Kind + " " + o.Name, Text: "not copied: a kind of " + o.Kind.GroupVersion().String(),
				Hint: "if the application needs it, use application: {manifests: …} with it"})
		}
	}
	return hint.Prefix(ctx.Err(), "copy namespace %s", namespace)
}
