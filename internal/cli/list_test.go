package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/examples"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/test/must"
)

func TestList(t *testing.T) {
	c := session.NewProgram("", nil)
	want := map[string]struct {
		rows int
		line string // one that must be there, its columns separated by two spaces or more
	}{
		"meshes":     {len(mesh.Names()), "linkerd  kubernetes 2026.8.3  recorded  mTLS, L7, retries, telemetry  all  "},
		"options":    {optionCount(), "envoy  accessLog  "},
		"apps":       {len(app.Builtin()), "chain-3  3  3  http1, http2, grpc, websocket  "},
		"generators": {len(c.Generators), "tare  open, closed  built in  response time: from the scheduled start to the last byte"},
		"platforms":  {len(c.Platforms), "local"},
		"meters":     {len(session.ClusterMeters), "kubelet  counters"},
		"examples":   {len(examples.Names()), "quickstart  What does a pair of Envoy sidecars with mTLS add to one small service?"},
		"faults":     {len(experiment.FaultKinds()), "terminate  -  grace  SIGTERM"},
		"metrics":    {len(metric.Rows()), "cpu_us_per_request  us  lower  CPU time per answered request  app, data, "},
	}
	if len(want) != len(listings) {
		t.Errorf("%d listings, want %d", len(listings), len(want))
	}
	for _, l := range listings {
		var out bytes.Buffer
		cmd := newListCommand(testLine(t, &out))
		cmd.SetArgs([]string{l.name})
		if err := cmd.Execute(); err != nil {
			t.Errorf("%s: %v", l.name, err)
		}
		lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		if got := len(lines) - 1; got != want[l.name].rows {
			t.Errorf("%s: %d rows, want %d", l.name, got, want[l.name].rows)
		}
		if !hasRow(lines, want[l.name].line) {
			t.Errorf("%s: %q is not in\n%s", l.name, want[l.name].line, out.String())
		}
	}
}

// A mesh that is only a gateway has the protocols of its routes.
func TestListGateways(t *testing.T) {
	var out bytes.Buffer
	cmd := newListCommand(testLine(t, &out))
	cmd.SetArgs([]string{"meshes"})
	must.OK(t, cmd.Execute())
	if !hasRow(strings.Split(out.String(), "\n"), "contour  kubernetes v1.33.8  run  L7, telemetry  http1  ") {
		t.Errorf("no row of contour in\n%s", out.String())
	}
}

func optionCount() (n int) {
	for _, d := range mesh.Builtin() {
		n += len(d.Options())
	}
	return n
}

// hasRow ignores the width of the gaps between columns.
func hasRow(lines []string, want string) bool {
	columns := func(s string) string {
		for strings.Contains(s, "   ") {
			s = strings.ReplaceAll(s, "   ", "  ")
		}
		return s
	}
	for _, l := range lines {
		if strings.HasPrefix(columns(l), want) {
			return true
		}
	}
	return false
}

func TestListRefuses(t *testing.T) {
	for _, args := range [][]string{{}, {"everything"}, {"meshes", "apps"}} {
		cmd := newListCommand(testLine(t, nil))
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err == nil {
			t.Errorf("list %q is accepted", args)
		}
	}
}
