package kubecli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// The studies run on a cluster too, shortened: one block, seconds of load. Their figures mean nothing. The test requires
// that every trial is deployed, verified, loaded and recorded.
func TestKubernetesStudies(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("runs five studies for minutes: make e2e-all runs it")
	}
	clustertest.Kubeconfig(t) // or skipped
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
		{"to-sidecar-or-not", 2, []string{"application={manifests: [" + adderManifests(t) + "], entry: adder}",
			"factors={route: [/adder, /adder-with-sidecar-socket, /adder-with-sidecar-grpc], requestSize: [1KiB], rate: [20], connections: [2]}"}, nil},
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

// adderManifests loads the image of examples/adder, and returns the path of its manifests.
func adderManifests(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "adder")
	build := exec.Command("go", "build", "-o", program, "./examples/adder")
	build.Dir, build.Env = "../../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	loadForeign(t, "localhost/adder:1", map[string]string{"/adder": program})
	return must.Get(filepath.Abs("../../../../examples/adder/kubernetes.yaml"))(t)
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
