package kubecli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
)

// The studies run on a cluster too, shortened: one block, seconds of load. Their figures mean nothing. The test requires
// that every trial is deployed, verified, loaded and recorded.
func TestKubernetesStudies(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("runs four studies for minutes: make e2e-all runs it")
	}
	for _, s := range []struct {
		file  string
		apps  int // containers of the application in the largest trial
		cut   []string
		check func(*testing.T, *onKubernetes)
	}{
		{"k3s-sidecar-baseline", 10, []string{"factors={mesh: [none], rate: [50], replicas: [10]}"}, byNamespace},
		{"max-throughput", 6, []string{"factors={mesh: [none], rate: [max], connections: [20]}"}, nil},
		{"istio-linkerd-cpu", 6, []string{"factors={mesh: [none], rate: [60], connections: [20]}"}, nil},
		{"fault-drain", 20, []string{"factors={mesh: [none], rate: [100], connections: [20]}", "phases.measure=12s",
			"faults=[{kind: scale, by: -1, at: 2s, every: 4s, count: 2, target: {service: server, pick: first}}]"}, nil},
	} {
		t.Run(s.file, func(t *testing.T) {
			text := must.Get(os.ReadFile("../../../../examples/" + s.file + ".yaml"))(t)
			phases := "phases={warmup: 2s, measure: 5s, drain: 1s, idle: {cpu: 100, deadline: 1s}}"
			r := fileOnKubernetes(t, text, append([]string{phases, "blocks=1", "control=false", "order=random"}, s.cut...)...)
			cmd := r.start(t, r.args...)
			_ = cmd.Wait()
			// On a busy machine trials are invalid, and expectations of response times do not hold.
			if code := cmd.ProcessState.ExitCode(); code != console.Done && code != console.Incomplete && code != console.Gate {
				t.Errorf("exit code %d", code)
			}
			most := 0
			for _, one := range r.recorded(t) {
				if one.Error != "" || one.Load == nil || one.Load.Classes["2xx"] == 0 {
					t.Errorf("%s: %s, %+v", one.ID, one.Error, one.Load)
				}
				_, apps := usedBy(one, metric.App)
				most = max(most, apps)
				for _, check := range one.Checks {
					if !check.OK {
						t.Errorf("%s: %s: %s", one.ID, check.Name, check.Detail)
					}
				}
			}
			if most != s.apps {
				t.Errorf("%d containers of the application, want %d", most, s.apps)
			}
			if s.check != nil {
				s.check(t, r)
			}
		})
	}
}

// byNamespace requires the study's table: CPU and memory of each namespace.
func byNamespace(t *testing.T, r *onKubernetes) {
	out, err := exec.Command(filepath.Join(r.bin, "tare"), "report", r.dir, "--all").CombinedOutput()
	for _, row := range []string{`application`, `kube-system`} {
		if !regexp.MustCompile(row).Match(out) {
			t.Errorf("no row of %s, %v:\n%s", row, err, out)
		}
	}
	t.Logf("%s", out)
}
