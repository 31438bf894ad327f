package kubecli

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Generators in images of their own, over two load workers: the shares add up to the rate, the workers' results are
// merged into one, and the workers start together.
func TestKubernetesGeneratorsInImages(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("needs oha and measures for minutes: make e2e-all runs it")
	}
	r := experimentOnKubernetes(t, `
factors: {rate: [71], connections: [5], generator: [oha, vegeta]}
load: {workers: 2, arrivals: constant}
phases: {warmup: 24s, measure: 20s, drain: 2s}
blocks: 1
`, "platform.images={oha: 'tare.test/oha:1', vegeta: {image: 'tare.test/vegeta:1', path: /usr/bin/vegeta}}")
	loadGeneratorImage(t, "oha", "/bin/oha", "tare.test/oha:1")
	loadGeneratorImage(t, "vegeta", "/usr/bin/vegeta", "tare.test/vegeta:1")
	all := r.records(t, console.Done, nil)
	if len(all) != 2 {
		t.Fatalf("%d trials", len(all))
	}
	for _, one := range all {
		if !usable(one) || one.Load == nil {
			t.Fatalf("%+v", one)
		}
		l := one.Load
		if d := difftest.Of("l.AskedRate", l.AskedRate, 71, "l.Workers", l.Workers, 2, "l.Connections", l.Connections, 5, "len(l.Errors) > 0", len(l.Errors) > 0, false); d != "" {
			t.Errorf("%s: %s: at %v/s by %d workers over %d connections, errors %v", d, one.Treatment, l.AskedRate, l.Workers, l.Connections, l.Errors)
		}
		// Each worker's window begins and ends between two of its own requests, which a busy machine sends late. At an edge
		// each connection may have one without an answer.
		const want, edge = 71 * 20, 71*20/100 + 2*5
		if l.Sent < want-want/100 || l.Sent > want+want/100 {
			t.Errorf("%s: %d requests were sent, want %d", one.Treatment, l.Sent, want)
		}
		for what, n := range map[string]int64{"completed": l.Completed, "answered with 2xx": l.Classes["2xx"]} {
			if n < want-edge || n > want+edge {
				t.Errorf("%s: %d requests were %s, want %d", one.Treatment, n, what, want)
			}
		}
		if ns, tasks := usedBy(one, metric.Load); ns <= 0 || tasks != 2 {
			t.Errorf("%s: %d tasks of the load used %d ns", one.Treatment, tasks, ns)
		}
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "trials", "*", "provenance", "commands.sh"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	rates := regexp.MustCompile(`(/bin/oha .*-q|/usr/bin/vegeta .*-rate=) ?3([56])\b`)
	for _, f := range files {
		b := must.Get(os.ReadFile(f))(t)
		if found := rates.FindAllSubmatch(b, -1); len(found) != 2 || string(found[0][2])+string(found[1][2]) != "65" {
			t.Errorf("the shares of the rate: %q in\n%s", found, b)
		}
	}
}

// loadGeneratorImage builds an image of an installed generator and its shared libraries, and loads it onto the nodes.
func loadGeneratorImage(t *testing.T, name, path, tag string) {
	t.Helper()
	installed, _ := filepath.Glob(filepath.Join(generator.GeneratorsDir(), name+"-*", "bin", name)) // the pattern is well formed
	if len(installed) == 0 {
		t.Fatalf("%s is not installed: make generators", name)
	}
	loadForeign(t, tag, map[string]string{path: installed[len(installed)-1]})
}
