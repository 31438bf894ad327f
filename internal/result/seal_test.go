package result_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// The files of a directory are listed when the run ends, and the list is removed before anything changes.
func TestSeal(t *testing.T) {
	d := create(t)
	own := filepath.Join(d.Path(), result.SumsFile)
	absent := func(when string) {
		t.Helper()
		if _, err := os.Lstat(own); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", when, err)
		}
	}
	sealed(t, d)
	absent("during the run")
	must.OK(t, d.Close())
	of, err := d.Own()
	if err != nil || of == nil || !of.Whole {
		t.Fatalf("%+v, %v", of, err)
	}
	in := func(name string) string { return "trials/" + d.Plan().Trials[0].ID + "/" + name }
	want := []string{result.ExperimentFile, result.PlanFile, result.EnvironmentFile, in(result.ManifestFile), in(result.RecordFile), in(result.EventsFile),
		in(result.LatencyFile), in("provenance/envoy.log")}
	for _, name := range want {
		if got, err := result.Digest(d.Path(), name); err != nil || got.SHA256 != of.Sums[name] {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, of.Sums[name])
		}
	}
	if len(of.Sums) != len(want) {
		t.Errorf("%+v", of.Sums)
	}
	if _, err := os.Lstat(filepath.Join(d.Path(), result.LockFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock of an ended run: %v", err)
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

// sha256sum reads the list, whatever the names are, and tare reads it as it is.
func TestSumsOfSha256sum(t *testing.T) {
	d := create(t)
	dir := sealed(t, d)
	for _, name := range []string{"two words", "line\nend", "back\\slash", "return\rit", "-n"} {
		write(t, filepath.Join(dir, result.ProvenanceDir, name), name, 0o600)
	}
	must.OK(t, os.Remove(filepath.Join(dir, result.ManifestFile))) // of a tare without manifests: every file is read
	must.OK(t, d.Close())
	of := must.Get(d.Own())(t)
	for _, name := range []string{"two words", "line\nend", "back\\slash", "return\rit", "-n"} {
		want := must.Get(result.Digest(dir, result.ProvenanceDir+"/"+name))(t)
		if got := of.Sums["trials/"+d.Plan().Trials[0].ID+"/provenance/"+name]; got != want.SHA256 {
			t.Errorf("%q: %q, want %q", name, got, want.SHA256)
		}
	}
	program, err := exec.LookPath("sha256sum")
	if err != nil {
		t.Skip("no sha256sum")
	}
	cmd := exec.Command(program, "--strict", "-c", result.SumsFile)
	cmd.Dir = d.Path()
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != len(of.Sums) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A list that is not in the form of sha256sum is an error, with its line and without its text.
func TestDamagedSums(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for text, line := range map[string]string{
		"machine example password S3CRET\n": ":1:", sum + "  a\n" + sum + "\n": ":2:", sum + "  a": ":1:", sum[2:] + "  a\n": ":1:",
		sum + "  a\n" + sum + "  a\n": ":2:", sum + " a\n": ":1:", sum + "  \n": ":1:",
	} {
		d := create(t)
		write(t, filepath.Join(d.Path(), result.SumsFile), text, 0o600)
		_, err := d.Own()
		must.Fail(t, err, result.SumsFile+line, text)
		if strings.Contains(err.Error(), "S3CRET") {
			t.Error(err)
		}
		must.OK(t, d.Close())
	}
}

// A record that the list of an ended run has is not silently absent. A run that is resumed makes it again.
func TestMissingRecord(t *testing.T) {
	d := create(t)
	sealed(t, d)
	must.OK(t, d.Close())
	must.OK(t, os.Remove(d.TrialFile(d.Plan().Trials[0].ID, result.RecordFile)))
	_, err := d.Records()
	must.Fail(t, err, "record.json: the file is missing, and SHA256SUMS lists it", "records")
	again := must.Get(result.Resume(d.Path(), []byte(experimentText), d.Environment()))(t)
	defer again.Close()
	if records, err := again.Records(); err != nil || len(records) != 0 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// Files that may still change when a run ends are not listed: of a trial without a record, and logs of a deployment whose
// removal was not seen. Files of an earlier attempt are.
func TestSumsOfAnInterruptedRun(t *testing.T) {
	d := create(t)
	all := d.Plan().Trials
	unremoved := must.Get(d.Trial(all[0]))(t)
	write(t, filepath.Join(unremoved.Provenance(), "envoy.log"), "starting\n", 0o600)
	must.OK(t, unremoved.Finish(recordOf(all[0])))
	for range 2 {
		unrecorded := must.Get(d.Trial(all[1]))(t)
		must.OK(t, unrecorded.Abandon())
	}
	must.OK(t, d.Close())
	of := must.Get(d.Own())(t)
	for name, want := range map[string]bool{all[0].ID + "/record.json": true, all[0].ID + "/events.jsonl": true, all[0].ID + "/manifest.json": true,
		all[0].ID + "/provenance/envoy.log": false, all[1].ID + "/events.jsonl": false, all[1].ID + ".partial/events.jsonl": true} {
		if got := of.Sums["trials/"+name] != ""; got != want {
			t.Errorf("%s is listed: %v", name, got)
		}
	}
}
