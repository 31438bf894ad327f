package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// IsNotFound reports whether an object does not exist.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) }

// Apply creates or changes objects, in order, by server-side apply with [FieldManager]. Each object is labelled with
// the stamp and archived first. Fields that another manager owns are taken over. Objects may be typed or unstructured,
// and are not modified. Apply returns when the API server has accepted them, not when they are ready: see
// [Cluster.WaitReady].
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
		return fmt.Errorf("apply %s: the stamp has no run ID, so that `tare cluster cleanup` could not find it", ref)
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
			return fmt.Errorf("archive the manifest of %s: %w", ref, err)
		}
	}
	if c.DryRun() {
		c.recorder.Manifest(manifest, "apply", "--server-side", "--force-conflicts", "--field-manager", FieldManager, "-f", "-")
		return nil
	}
	return c.send(ctx, ref, u)
}

func (c *Cluster) send(ctx context.Context, ref Ref, u *unstructured.Unstructured) error {
	client, err := c.resources.client(ctx, ref)
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

// Get reads one object. [IsNotFound] recognises the error if it does not exist.
func (c *Cluster) Get(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	client, err := c.resources.client(ctx, ref)
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
