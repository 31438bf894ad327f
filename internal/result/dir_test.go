package result_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

const experimentText = "kind: Experiment\nmetadata:\n  name: small\nblocks: 2\n"

func smallPlan() *plan.Plan {
	p := &plan.Plan{Schema: result.PlanSchema, Experiment: "small", Seed: 7, Blocks: 2,
		Treatments: []plan.Treatment{{ID: "none"}, {ID: "envoy"}}}
	for block := 1; block <= 2; block++ {
		for _, t := range p.Treatments {
			n := len(p.Trials) + 1
			p.Trials = append(p.Trials, plan.Trial{ID: fmt.Sprintf("%d-%s-b%d", n, t.ID, block), Ordinal: n, Block: block, Treatment: t.ID, Seed: uint64(block)})
		}
	}
	return p
}

func create(t *testing.T) *result.Dir {
	t.Helper()
	d := must.Get(result.Create(filepath.Join(t.TempDir(), "run"), []byte(experimentText), smallPlan(), result.Environment{Tare: "v1", CPUs: 2, Meshes: map[string]string{"own": "0123456789abcdef"}}))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func recordOf(t plan.Trial) result.Record {
	return result.Record{ID: t.ID, Ordinal: t.Ordinal, Block: t.Block, Treatment: t.Treatment, Valid: true,
		Tasks: []result.TaskUsage{{Task: mesh.Task{ID: "echo-0/app", Plane: metric.App}, End: result.Reading{CPU: 5}}}}
}

func finish(t *testing.T, d *result.Dir, trial plan.Trial) {
	t.Helper()
	td := must.Get(d.Trial(trial))(t)
	for _, kind := range []string{result.KindTrial, result.KindDone} {
		must.OK(t, td.Event(result.Event{Kind: kind, Trial: trial.ID}))
	}
	must.OK(t, td.Finish(recordOf(trial)))
}

func TestRoundTrip(t *testing.T) {
	d := create(t)
	trials := d.Plan().Trials
	finish(t, d, trials[2]) // out of order on purpose
	finish(t, d, trials[0])
	if _, err := d.Trial(trials[1]); err != nil { // begun, not finished
		t.Fatal(err)
	}

	r := must.Get(result.Open(d.Path()))(t)
	records := must.Get(r.Records())(t)
	if len(records) != 2 || records[0].ID != trials[0].ID || records[1].ID != trials[2].ID {
		t.Fatalf("records %+v, want those of trials 1 and 3 in order", records)
	}
	if records[0].Tasks[0].Plane != metric.App || records[0].Schema != result.Schema {
		t.Errorf("record %+v", records[0])
	}
	if string(r.Experiment()) != experimentText {
		t.Errorf("experiment %q", r.Experiment())
	}
	if got := r.Plan(); len(got.Trials) != 4 || got.Seed != 7 {
		t.Errorf("plan %+v", got)
	}
	if e := r.Environment(); e.CPUs != 2 || len(e.ExperimentSHA256) != 64 {
		t.Errorf("environment %+v", e)
	}
	pending, err := r.Pending()
	if err != nil || len(pending) != 2 || pending[0].ID != trials[1].ID {
		t.Errorf("pending %v, %v", pending, err)
	}
	var kinds []string
	for e, err := range r.Events(trials[0].ID) {
		must.OK(t, err)
		kinds = append(kinds, e.Kind)
	}
	if strings.Join(kinds, " ") != "trial done" {
		t.Errorf("events %v", kinds)
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600))
	_, err := result.Create(dir, nil, smallPlan(), result.Environment{})
	wantError(t, err, "it is not empty", "--out")
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("a refused directory was written to: %v", entries)
	}
	for name, mend := range map[string]func(*plan.Plan){
		"no trials":                  func(p *plan.Plan) { p.Trials = nil },
		"cannot be the name":         func(p *plan.Plan) { p.Trials[1].ID = "../../etc" },
		"in the plan twice":          func(p *plan.Plan) { p.Trials[1].ID = p.Trials[0].ID },
		"which does not follow":      func(p *plan.Plan) { p.Trials[1].Ordinal = 1 },
		`trial ".." cannot be the n`: func(p *plan.Plan) { p.Trials[1].ID = ".." },
	} {
		p := smallPlan()
		mend(p)
		_, err := result.Create(filepath.Join(t.TempDir(), "x"), nil, p, result.Environment{})
		wantError(t, err, name, "")
	}
}

func TestOneWriter(t *testing.T) {
	d := create(t)
	_, err := result.Resume(d.Path(), []byte(experimentText), d.Environment())
	wantError(t, err, fmt.Sprintf("another tare (pid %d) is writing to it", os.Getpid()), "wait")
	must.OK(t, d.Close())
	again := must.Get(result.Resume(d.Path(), []byte(experimentText), d.Environment()))(t)
	defer again.Close()
	reader := must.Get(result.Open(d.Path()))(t)
	_, err = reader.Trial(d.Plan().Trials[0])
	wantError(t, err, "reading only", "")
}

func TestResume(t *testing.T) {
	d := create(t)
	trials := d.Plan().Trials
	finish(t, d, trials[0])
	for _, text := range []string{"first", "second"} { // two attempts that were cut short
		td := must.Get(d.Trial(trials[1]))(t)
		must.OK(t, td.Event(result.Event{Kind: result.KindLog, Message: text}))
		must.OK(t, td.Abandon())
	}
	d.Close()

	changed := strings.Replace(experimentText, "blocks: 2", "blocks: 3", 1)
	_, err := result.Resume(d.Path(), []byte(changed), d.Environment())
	wantError(t, err, `line 4 was "blocks: 2" and is now "blocks: 3"`, "new directory")
	_, err = result.Resume(d.Path(), []byte(experimentText+"seed: 2\n"), d.Environment())
	wantError(t, err, `is now "seed: 2"`, "new directory")
	elsewhere := d.Environment()
	elsewhere.Kernel, elsewhere.CPUs = "9.9", 64
	_, err = result.Resume(d.Path(), []byte(experimentText), elsewhere)
	wantError(t, err, "kernel was  and is now 9.9; number of CPUs was 2 and is now 64", "where it began")

	redefined := d.Environment()
	redefined.Meshes = map[string]string{"own": "fedcba9876543210"}
	_, err = result.Resume(d.Path(), []byte(experimentText), redefined)
	wantError(t, err, "the definition of mesh own was 0123456789ab and is now fedcba987654", "new directory")

	r := must.Get(result.Resume(d.Path(), []byte(experimentText), d.Environment()))(t)
	defer r.Close()
	_, err = r.Trial(trials[0])
	wantError(t, err, "already recorded", "")
	pending, err := r.Pending()
	if err != nil || len(pending) != 3 {
		t.Fatalf("pending %v, %v", pending, err)
	}
	for _, trial := range pending {
		finish(t, r, trial)
	}
	records, err := r.Records()
	if err != nil || len(records) != 4 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	left := must.Get(os.ReadFile(r.TrialFile(trials[1].ID+result.PartialSuffix, result.EventsFile)))(t)
	must.Contain(t, string(left), "second")

	must.OK(t, os.WriteFile(filepath.Join(d.Path(), result.ExperimentFile), []byte(changed), 0o600))
	r.Close()
	_, err = result.Resume(d.Path(), []byte(changed), d.Environment())
	wantError(t, err, "was changed after the run began", "SHA-256")
}

func TestVersionsMayNotChange(t *testing.T) {
	d := create(t)
	must.OK(t, d.SetVersions(map[string]string{"envoy": "1.40.0"}))
	must.OK(t, d.SetVersions(map[string]string{"envoy": "1.40.0", "oha": "1.4"}))
	r, err := result.Open(d.Path())
	if err != nil || r.Environment().Versions["oha"] != "1.4" {
		t.Fatalf("%+v, %v", r, err)
	}
	wantError(t, d.SetVersions(map[string]string{"envoy": "1.41.0"}), "began with envoy 1.40.0 and would go on with 1.41.0", "provide the first version again")
}

// Each row damages a sound directory; the error names the file and, if known, the line.
func TestDamage(t *testing.T) {
	id := smallPlan().Trials[0].ID
	for _, c := range []struct {
		name, file string
		mend       func(string) string
		message    string
	}{
		{"cut plan", "plan.json", func(s string) string { return s[:len(s)/2] }, "plan.json:"},
		{"plan of a later schema", "plan.json", replace("tare.plan/v1", "tare.plan/v9"), `schema "tare.plan/v9" is not "tare.plan/v1"`},
		{"plan that leaves the directory", "plan.json", replace(id, "../../"+id), "cannot be the name of a directory"},
		{"environment of a later schema", "environment.json", replace("tare.results/v1", "tare.results/v2"), `schema "tare.results/v2" is not`},
		{"environment with a wrong type", "environment.json", replace(`"cpus": 2`, `"cpus": "two"`), "environment.json:9: found string in field cpus, expected a number"},
		{"record that is not JSON", "trials/" + id + "/record.json", func(string) string { return "{\n\n\nnonsense" }, "record.json:4: invalid character"},
		{"empty record", "trials/" + id + "/record.json", func(string) string { return "" }, "record.json:1: unexpected end"},
		{"record without a schema", "trials/" + id + "/record.json", func(string) string { return "{}" }, `schema "" is not "tare.results/v1"`},
		{"record of another trial", "trials/" + id + "/record.json", replace(`"ordinal": 1`, `"ordinal": 3`), "the record is of trial"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := create(t)
			finish(t, d, d.Plan().Trials[0])
			path := filepath.Join(d.Path(), filepath.FromSlash(c.file))
			b := must.Get(os.ReadFile(path))(t)
			must.OK(t, os.WriteFile(path, []byte(c.mend(string(b))), 0o600))
			r, err := result.Open(d.Path())
			if err == nil {
				_, err = r.Records()
			}
			wantError(t, err, c.message, "")
			if !strings.Contains(err.Error(), filepath.Base(c.file)) {
				t.Errorf("%v does not name %s", err, c.file)
			}
		})
	}
}

func TestOpenOtherDirectories(t *testing.T) {
	_, err := result.Open(filepath.Join(t.TempDir(), "gone"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	_, err = result.Open(t.TempDir())
	wantError(t, err, "not a results directory", "tare run printed")
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, result.ExperimentFile), nil, 0o600))
	_, err = result.Open(dir)
	wantError(t, err, "ended before it began its first trial", "remove")
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("reading wrote: %v", entries)
	}
}

func TestUnplannedTrial(t *testing.T) {
	d := create(t)
	finish(t, d, d.Plan().Trials[0])
	from := filepath.Join(d.Path(), result.TrialsDir, d.Plan().Trials[0].ID)
	must.OK(t, os.Rename(from, filepath.Join(d.Path(), result.TrialsDir, "99-linkerd-b1")))
	_, err := d.Records()
	wantError(t, err, "not in plan.json", "mixed")
}

func TestRecordOfTheWrongTrialIsRefused(t *testing.T) {
	d := create(t)
	td := must.Get(d.Trial(d.Plan().Trials[0]))(t)
	wantError(t, td.Finish(recordOf(d.Plan().Trials[1])), "the record is of trial", "")
	wantError(t, td.Event(result.Event{}), "the trial is finished", "")
	records, err := d.Records()
	if err != nil || len(records) != 0 {
		t.Errorf("%v, %v", records, err)
	}
}

func replace(from, to string) func(string) string {
	return func(s string) string { return strings.Replace(s, from, to, 1) }
}

// wantError checks an error's message and, unless empty, its hint.
func wantError(t *testing.T, err error, message, advice string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), message) {
		t.Fatalf("error %v, want %q in it", err, message)
	}
	if advice == "" {
		return
	}
	must.Contain(t, hint.Of(err), advice)
}
