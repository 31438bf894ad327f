package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Patch changes fields of an existing object by a JSON merge patch (RFC 7386). It does not label the object: it may be
// another user's. subresource, such as status, is optional. A dry run records a kubectl command.
func (c *Cluster) Patch(ctx context.Context, ref Ref, patch []byte, subresource ...string) error {
	if c.DryRun() {
		args := []string{"patch", "--type", "merge", "--patch", string(patch)}
		for _, s := range subresource {
			args = append(args, "--subresource", s)
		}
		c.recorder.Kubectl(append(args, kubectlArgs(ref)...)...)
		return nil
	}
	client, err := c.resources.client(ctx, ref)
	if err != nil {
		return fmt.Errorf("change %s: %w", ref, err)
	}
	return c.Retry(ctx, "change "+ref.String(), func(ctx context.Context) error {
		_, err := client.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}, subresource...)
		return err
	})
}
