package kubecli

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// The table of nodes has the real ones. Simulated nodes have a line, with five names.
func TestStatusOfSimulatedNodes(t *testing.T) {
	for simulated, line := range map[int]string{0: "", 2: "sim-1, sim-2", 7: "sim-1, sim-2, sim-3, sim-4, sim-5 and 2 more"} {
		nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "real"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("24581256Ki")}}}, {ObjectMeta: metav1.ObjectMeta{Name: "typed", Labels: map[string]string{"type": "large"}}}}
		for i := range simulated {
			nodes = append(nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("sim-%d", i+1), Labels: map[string]string{"type": []string{"kwok", "virtual-kubelet"}[i%2]}}})
		}
		c := clustertest.Serve(t, map[string]any{"/api/v1/nodes": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			selector := must.Get(labels.Parse(r.URL.Query().Get("labelSelector")))(t)
			var list corev1.NodeList
			for _, n := range nodes {
				if selector.Matches(labels.Set(n.Labels)) {
					list.Items = append(list.Items, n)
				}
			}
			clustertest.Answer(t, w, list)
		})})
		var out bytes.Buffer
		must.OK(t, clusterStatus(t.Context(), cli.New(console.Console{Out: &out}, nil), c, "shop"))
		table, _, _ := strings.Cut(out.String(), "\nheld by: ")
		must.Contain(t, table, "real ", "typed ", " 23.4 GiB")
		_, got, _ := strings.Cut(table, "simulated nodes, in no figure: ")
		if strings.TrimSpace(got) != line || strings.Count(table, "sim-1") > 1 {
			t.Errorf("%d simulated nodes: want %q in\n%s", simulated, line, table)
		}
	}
}
