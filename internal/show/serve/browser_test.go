package serve

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// planted is a text that is a script wherever it is not escaped.
const planted = `</script><img src=x onerror="owned=1">`

// Chromium shows the list and a run under way without an error, a request elsewhere or a violation of axe-core, on a
// phone and on a wide screen. Texts of others are texts.
func TestInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	packages, chromium := programtest.PagePackages(t), programtest.Chromium(t)
	runs := t.TempDir()
	p := &plan.Plan{Schema: result.PlanSchema, Experiment: "small", Blocks: 1, TrialTime: time.Second, Treatments: []plan.Treatment{{ID: "none"}},
		Trials: []plan.Trial{{ID: "1-none-b1", Ordinal: 1, Block: 1, Treatment: "none"}}}
	d := must.Get(result.Create(filepath.Join(runs, "now"), []byte("kind: Experiment\n"), p, result.Environment{}))(t)
	defer d.Close()
	td := must.Get(d.Trial(p.Trials[0]))(t)
	at := time.Now().Add(-time.Minute)
	progress := func(rate float64) result.Event {
		return result.Event{Time: at, Kind: result.KindProgress, Progress: &result.Progress{AskedRate: 100, Rate: rate, P50MS: 1, P99MS: 2}}
	}
	var errs []error
	for _, e := range []result.Event{{Time: at, Kind: result.KindTrial}, {Time: at, Kind: result.KindPhase, Phase: "measure"}, progress(98), progress(77), {Time: at, Kind: result.KindLog, Message: planted}} {
		errs = append(errs, td.Event(e))
	}
	must.OK(t, errors.Join(errs...))
	const token = "0123456789abcdef"
	stopped := filepath.Join(runs, "stopped") // after three of its blocks
	write(t, stopped, func(s *answertest.Study) { s.Blocks = 4 })
	must.OK(t, errors.Join(os.Remove(filepath.Join(stopped, result.SumsFile)), os.RemoveAll(filepath.Join(stopped, result.TrialsDir, lastOf(t, stopped)))))
	_, base := serving(t, Config{Dirs: []string{runs}, Token: token})
	browser := exec.CommandContext(t.Context(), "node", "testdata/browser.mjs", packages, chromium, base, token, "/", "/live/now", "/live/stopped")
	browser.Stderr = os.Stderr
	out := must.Get(browser.Output())(t)
	var all []struct {
		Path, ColorScheme              string
		Cookies, Errors, Requests, Axe []string
		Owned                          any
		Text, Chart                    string
		Overflow, PDF                  int
	}
	if err := json.Unmarshal(out, &all); err != nil || len(all) != 6 {
		t.Fatalf("%d pages, %v:\n%.500s", len(all), err, out)
	}
	for _, f := range all {
		if found := slices.Concat(f.Errors, f.Requests, f.Axe); len(found) > 0 || f.Owned != nil || f.Overflow > 0 || f.PDF < 5000 {
			t.Errorf("%s %s: %q, script ran: %v, %d px too wide, printed: %d bytes", f.Path, f.ColorScheme, found, f.Owned, f.Overflow, f.PDF)
		}
		if len(f.Cookies) != 1 || strings.Contains(f.Cookies[0], token) {
			t.Errorf("cookies %q", f.Cookies)
		}
		if f.Path == "/live/now" && (!strings.Contains(f.Text, planted) || !strings.Contains(f.Text, "77") || !strings.Contains(f.Text, "measure")) {
			t.Errorf("the run under way:\n%s", f.Text)
		}
		if f.Path == "/live/stopped" && (!strings.Contains(f.Text, "Interrupted") || !strings.Contains(f.Chart, "difference to the baseline") || !strings.Contains(f.Chart, "envoy")) {
			t.Errorf("a run that was interrupted, with the chart %q:\n%s", f.Chart, f.Text)
		}
	}
}

// lastOf is the last trial of a run.
func lastOf(t *testing.T, dir string) string {
	t.Helper()
	d := must.Get(result.Open(dir))(t)
	defer d.Close()
	trials := d.Plan().Trials
	return trials[len(trials)-1].ID
}
