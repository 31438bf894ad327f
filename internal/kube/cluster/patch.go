package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Patch changes fields of an existing object by a JSON merge patch (RFC 7386). It does not label the object: it may be
// another user's. A dry run records a kubectl command.
func (c *Cluster) Patch(ctx context.Context, ref Ref, patch []byte) error {
	if c.DryRun() {
		c.recorder.Kubectl(append([]string{"patch", "--type", "merge", "--patch", string(patch)}, kubectlArgs(ref)...)...)
		return nil
	}
	client, err := c.resources.client(ctx, ref)
	if err != nil {
		return fmt.Errorf("change %s: %w", ref, err)
	}
	return c.Retry(ctx, "change "+ref.String(), func(ctx context.Context) error {
		_, err := client.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
		return err
	})
}
