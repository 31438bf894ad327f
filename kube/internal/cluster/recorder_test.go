package cluster_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

func TestDryRun(t *testing.T) {
	var r cluster.Recorder
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Context: "prod", Kubeconfig: "/no/such/file", Recorder: &r}))(t)
	d := clustertest.Deployment("shop", nil)
	ref, _ := cluster.RefOf(d)
	ctx := t.Context()
	must.OK(t, errors.Join(c.Apply(ctx, cluster.Stamp{Run: "r1"}, d), c.WaitReady(ctx, nil, ref), c.Delete(ctx, nil, ref)))
	var b strings.Builder
	must.Get(r.WriteTo(&b))(t)
	clustertest.Contains(t, b.String(), "---\n# $ kubectl --context prod apply --server-side --force-conflicts --field-manager tare -f -\n", "tare.dev/run: r1",
		"# $ kubectl --context prod wait --for condition=Available -n shop deployment.apps/echo\n",
		"# $ kubectl --context prod delete --ignore-not-found --cascade foreground -n shop deployment.apps/echo\n")
	if _, err := c.Version(ctx); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a request in a dry run: %v", err)
	}
	if err := c.Apply(ctx, cluster.Stamp{}, d); err == nil {
		t.Error("applied without a run ID")
	}
}
