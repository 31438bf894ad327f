package cluster

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// errNotFound is what a lookup of an object says that is not there.
var errNotFound = errors.New("not found")

// IsNotFound says that an object is not there.
func IsNotFound(err error) bool { return errors.Is(err, errNotFound) || apierrors.IsNotFound(err) }

// Apply puts objects into the cluster, in order, by server-side apply with [FieldManager], each marked with the stamp
// and archived first. What is there already is changed to what is given; fields that another manager owns are taken.
// An object may be of client-go's types or unstructured; it is not changed. Apply returns when the API server has
// taken them, not when they are ready: see [Cluster.WaitReady].
func (c *Cluster) Apply(ctx context.Context, s Stamp, objects ...runtime.Object) error {
	for _, o := range objects {
		if err := c.applyOne(ctx, s, o); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) applyOne(ctx context.Context, s Stamp, o runtime.Object) error {
	u, err := asUnstructured(o)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	ref := refOf(u)
	if s.Run == "" && s.Installed == "" {
		return fmt.Errorf("apply %s: without a run's id it could not be swept", ref)
	}
	if err := s.Mark(u); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("apply %s: %w", ref, err)
	}
	manifest := Manifest{Ref: ref, YAML: text}
	if s.Archive != nil {
		if err := s.Archive(manifest); err != nil {
			return fmt.Errorf("keep the manifest of %s: %w", ref, err)
		}
	}
	if c.DryRun() {
		c.recorder.Add(Step{c.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager", FieldManager, "-f", "-"), &manifest})
		return nil
	}
	return c.send(ctx, ref, u)
}

func (c *Cluster) send(ctx context.Context, ref Ref, u *unstructured.Unstructured) error {
	client, err := c.resource(ctx, ref)
	if err != nil {
		return fmt.Errorf("apply %s: %w", ref, err)
	}
	body, err := u.MarshalJSON()
	if err != nil {
		return fmt.Errorf("apply %s: %w", ref, err)
	}
	force := true
	return c.Retry(ctx, "apply "+ref.String(), func(ctx context.Context) error {
		_, err := client.Patch(ctx, ref.Name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: FieldManager, Force: &force})
		return err
	})
}

// Get reads one object; [IsNotFound] recognises that it is not there.
func (c *Cluster) Get(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	client, err := c.resource(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	var got *unstructured.Unstructured
	err = c.Retry(ctx, "read "+ref.String(), func(ctx context.Context) error {
		var err error
		got, err = client.Get(ctx, ref.Name, metav1.GetOptions{})
		return err
	})
	return got, err
}
