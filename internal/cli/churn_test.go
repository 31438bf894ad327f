package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// pathWithIstiod returns PATH with etcd, kube-apiserver and istiod, from the cache of the test cluster, and istiod-objects.
func pathWithIstiod(t *testing.T) string {
	t.Helper()
	cache := must.Get(os.UserCacheDir())(t)
	path := os.Getenv("PATH")
	for _, program := range []string{"kube-apiserver", "pilot-discovery"} {
		found, _ := filepath.Glob(filepath.Join(cache, "tare", "cluster", "*", "bin", program))
		if found == nil {
			t.Skipf("no %s: run bin/tare-cluster build --with istio", program)
		}
		path += string(os.PathListSeparator) + filepath.Dir(found[len(found)-1])
	}
	objects := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(objects, "istiod-objects"), "../../examples/istiod/objects").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path + string(os.PathListSeparator) + objects
}

// istiodCounts are istiod's own counters.
type istiodCounts struct{ streams, pushes float64 }

var monitoring = regexp.MustCompile(`--monitoringAddr'? '?([0-9.]+:[0-9]+)`)

// readIstiod reads the counters of the istiod of the only trial of a run.
func readIstiod(ctx context.Context, results string) (c istiodCounts, err error) {
	files, _ := filepath.Glob(filepath.Join(results, "trials", "*", "provenance", "commands.sh"))
	if len(files) != 1 {
		return c, errors.New("no trial")
	}
	commands, err := os.ReadFile(files[0])
	if err != nil {
		return c, err
	}
	address := monitoring.FindSubmatch(commands)
	if address == nil {
		return c, errors.New("no istiod")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(address[1])+"/metrics", nil)
	if err != nil {
		return c, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return c, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return c, err
	}
	for s, err := range scrape.Samples(text, "pilot_xds") {
		switch {
		case err != nil:
			return c, err
		case s.Name == "pilot_xds":
			c.streams += s.Value
		case s.Name == "pilot_xds_pushes":
			c.pushes += s.Value
		}
	}
	return c, nil
}

// Simulated proxies have the streams and the pushes that the real istiod counts.
func TestChurnOfIstiod(t *testing.T) {
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	path := pathWithIstiod(t)
	t.Parallel()
	const proxies = 40
	results := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	last := make(chan istiodCounts)
	go func() {
		var counts istiodCounts
		wait.Every(ctx, 100*time.Millisecond, 1, func() {
			if c, err := readIstiod(ctx, results); err == nil {
				counts = c
			}
		})
		last <- counts
	}()
	stdout, stderr, code := tareWith(t, "", []string{"PATH=" + path}, "run", "../../examples/istiod/churn.yaml", "--mesh", "../../examples/istiod/mesh.yaml", "--plain", "--format", "json", "--out", results,
		"--set", "blocks=1", "--set", "oneAtATime=false", "--set", "baseline={mesh: istiod}", "--set", "factors={mesh: [istiod], rate: [20], connections: [2]}",
		"--set", "background={services: 20, proxies: 40, changes: 5/s}", "--set", "phases={warmup: 1s, measure: 4s, drain: 3s}")
	cancel()
	counted := <-last
	if code != console.Done {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	records, _ := filepath.Glob(filepath.Join(results, "trials", "*", "record.json"))
	if len(records) != 1 {
		t.Fatalf("%d records, want 1", len(records))
	}
	var r result.Record
	must.OK(t, json.Unmarshal(must.Get(os.ReadFile(records[0]))(t), &r))
	pushed := r.Background.Pushes
	if pushed == nil || pushed.Proxies != proxies || pushed.Reached != r.Background.Changes || pushed.Missed > 0 || pushed.Broken > 0 {
		t.Errorf("got %+v of %d changes, want each to reach %d proxies without a broken stream", pushed, r.Background.Changes, proxies)
	}
	if counted.streams != proxies {
		t.Errorf("istiod counts %v streams, want %d", counted.streams, proxies)
	}
	if counted.pushes == 0 || int64(counted.pushes) != pushed.Messages {
		t.Errorf("istiod counts %v pushes, and the proxies received %d messages", counted.pushes, pushed.Messages)
	}
	if !strings.Contains(stdout, "Simulated: 40 proxies") {
		t.Errorf("the report does not name what was simulated:\n%s", stdout)
	}
}
