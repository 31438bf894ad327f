package result_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/result"
)

// The directory's manifest is written when the run ends, and removed before anything in it changes.
func TestSeal(t *testing.T) {
	d := create(t)
	own := filepath.Join(d.Path(), result.ManifestFile)
	absent := func(when string) {
		t.Helper()
		if _, err := os.Lstat(own); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", when, err)
		}
	}
	sealed(t, d)
	absent("during the run")
	must.OK(t, d.Close())
	m, err := d.Own()
	if err != nil || m == nil {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, name := range []string{result.ExperimentFile, result.PlanFile, result.EnvironmentFile, "trials/" + d.Plan().Trials[0].ID + "/" + result.ManifestFile} {
		f, ok := m.Lookup(name)
		if got, err := result.Digest(d.Path(), name); err != nil || !ok || got != f {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, f)
		}
	}
	if len(m.Files) != 4 {
		t.Errorf("%+v", m.Files)
	}
	for when, change := range map[string]func(*result.Dir) error{
		"another trial": func(d *result.Dir) error {
			_, err := d.Trial(d.Plan().Trials[1])
			return err
		},
		"other versions": func(d *result.Dir) error { return d.SetVersions(map[string]string{"envoy": "1.0.0"}) },
		"an early end":   func(d *result.Dir) error { return d.Stop(result.Stopped{Block: 1}) },
	} {
		d := must.Get(result.Resume(d.Path(), []byte(experimentText), d.Environment()))(t)
		if _, err := os.Lstat(own); err != nil {
			t.Errorf("resumed without a change: %v", err)
		}
		must.OK(t, change(d))
		absent(when)
		must.OK(t, d.Close())
	}
}

// A trial that was recorded when tare was killed is sealed by the run that resumes.
func TestSealOfAKilledRun(t *testing.T) {
	d := create(t)
	first := d.Plan().Trials[0]
	td := must.Get(d.Trial(first))(t)
	must.OK(t, td.Finish(recordOf(first)))
	unsealed, err := result.Unsealed(d)
	if err != nil || len(unsealed) != 1 || unsealed[0].ID != first.ID {
		t.Fatalf("%+v, %v", unsealed, err)
	}
	must.OK(t, result.SealTrials(d, unsealed))
	if unsealed, err := result.Unsealed(d); err != nil || len(unsealed) != 0 {
		t.Errorf("%+v, %v", unsealed, err)
	}
}
