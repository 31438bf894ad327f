package result_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// A plan of another person has no more blocks than trials: a loop over them would not end.
func TestBlocksWithoutTrials(t *testing.T) {
	for name, change := range map[string]func(*plan.Plan){
		"blocks": func(p *plan.Plan) { p.Blocks = 2_000_000_000 },
		"block":  func(p *plan.Plan) { p.Trials[3].Block = 2_000_000_000 },
	} {
		p := smallPlan()
		change(p)
		dir := create(t).Path()
		text := must.Get(json.Marshal(p))(t)
		write(t, filepath.Join(dir, result.PlanFile), string(text), 0o600)
		must.Fail(t, must.Err(result.Open(dir)), "2000000000", name)
	}
}

// writes are the calls that change a directory which another person may have made.
var writes = map[string]func(*result.Dir) error{
	"add": func(d *result.Dir) error { return result.Add(d.Path(), "report.html", []byte("<p>\n")) },
	"resume": func(d *result.Dir) error {
		r, err := result.Resume(d.Path(), []byte(experimentText), d.Environment())
		if err != nil {
			return err
		}
		defer r.Close()
		if err := r.SetVersions(map[string]string{"envoy": "1.0.0"}); err != nil {
			return err
		}
		td, err := r.Trial(d.Plan().Trials[1])
		if err != nil {
			return err
		}
		if err := td.Finish(recordOf(d.Plan().Trials[1])); err != nil {
			return err
		}
		if err := td.Seal(); err != nil {
			return err
		}
		if err := r.Stop(result.Stopped{Block: 1}); err != nil {
			return err
		}
		return r.Close()
	},
}

// No write follows a link that somebody planted in the directory, or changes a file with a name elsewhere.
func TestPlantedLinks(t *testing.T) {
	for name, change := range writes {
		for _, planted := range []string{".lock", "SHA256SUMS", "SHA256SUMS.tmp", "stopped.json.tmp", "environment.json.tmp", "report.html", "report.html.tmp",
			"trials/1-none-b1/manifest.json.tmp", "trials/2-envoy-b1", "trials/2-envoy-b1.partial"} {
			for kind, plant := range map[string]func(from, to string) error{"symbolic": os.Symlink, "hard": os.Link} {
				d := create(t)
				finish(t, d, d.Plan().Trials[0])
				must.OK(t, d.Close())
				victim := filepath.Join(t.TempDir(), "victim")
				write(t, victim, "mine\n", 0o600)
				place := filepath.Join(d.Path(), planted)
				_ = os.Remove(place)
				must.OK(t, plant(victim, place))
				err := change(d)
				if b, _ := os.ReadFile(victim); string(b) != "mine\n" {
					t.Errorf("%s, %s link %s: the file elsewhere became %q", name, kind, planted, b)
				}
				refused := planted == ".lock" || planted == "SHA256SUMS" && name == "add" || planted == "trials/2-envoy-b1" && name == "resume"
				if refused && (err == nil || hint.Of(err) == "" || !strings.Contains(err.Error(), place)) || !refused && err != nil {
					t.Errorf("%s, %s link %s: %v", name, kind, planted, err)
				}
			}
		}
		d := create(t)
		finish(t, d, d.Plan().Trials[0])
		must.OK(t, d.Close())
		trials, elsewhere := filepath.Join(d.Path(), result.TrialsDir), filepath.Join(t.TempDir(), "elsewhere")
		must.OK(t, os.Rename(trials, elsewhere))
		must.OK(t, os.Symlink(elsewhere, trials))
		must.Fail(t, change(d), "symbolic link", name)
	}
}
