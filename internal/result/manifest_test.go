package result_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// write puts a file into a trial's directory.
func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(content), mode))
}

// sealed records a trial with a latency log and a process log, and returns its directory.
func sealed(t *testing.T, d *result.Dir) string {
	t.Helper()
	td := must.Get(d.Trial(d.Plan().Trials[0]))(t)
	write(t, td.Path(result.LatencyFile), "log of latencies\n", 0o600)
	write(t, filepath.Join(td.Provenance(), "envoy.log"), "starting\n", 0o600)
	must.OK(t, td.Finish(recordOf(d.Plan().Trials[0])))
	m, err := d.Manifest(d.Plan().Trials[0].ID)
	if err != nil || m == nil || m.Complete {
		t.Fatalf("manifest before the deployment is removed: %+v, %v", m, err)
	}
	write(t, filepath.Join(td.Provenance(), "envoy.log"), "starting\nexiting\n", 0o600) // a process writes to its log until it is removed
	write(t, td.Path(result.ManifestFile+".tmp"), "{", 0o600)                           // as a killed program leaves it
	must.OK(t, td.Seal())
	return td.Path("")
}

func TestManifest(t *testing.T) {
	d := create(t)
	dir := sealed(t, d)
	m, err := d.Manifest(d.Plan().Trials[0].ID)
	if err != nil || m == nil || !m.Complete {
		t.Fatalf("%+v, %v", m, err)
	}
	var names []string
	for _, f := range m.Files {
		names = append(names, f.Name)
		if got, err := result.Digest(dir, f.Name); err != nil || got != f {
			t.Errorf("%s: %v, %v, want %v", f.Name, got, err, f)
		}
	}
	if want := []string{"events.jsonl", "latency.hdr", "provenance/envoy.log", "record.json"}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	// A colleague can read the results. Logs and configurations keep their modes.
	for name, want := range map[string]os.FileMode{result.EventsFile: 0o644, result.RecordFile: 0o644, result.ManifestFile: 0o644, "provenance/envoy.log": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, want %v: %v", name, info.Mode(), want, err)
		}
	}
}

// A changed record or latency log is not used, and the record has a warning.
func TestAlteredFiles(t *testing.T) {
	for _, c := range []struct {
		file, from, to, code string
		valid                bool
	}{
		{result.RecordFile, `"cpu": 5`, `"cpu": 6`, result.RecordAltered, false},
		{result.LatencyFile, "latencies", "latences", result.LatencyAltered, true},
		{result.EventsFile, "", "", "", true}, // reports do not read it
	} {
		d := create(t)
		path := filepath.Join(sealed(t, d), c.file)
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), c.from) {
			t.Fatalf("%s: %v\n%s", path, err, text)
		}
		write(t, path, strings.Replace(string(text), c.from, c.to, 1), 0o600)
		records, err := d.Records()
		if err != nil || len(records) != 1 {
			t.Fatalf("%v, %v", records, err)
		}
		r := records[0]
		var codes []string
		for _, w := range r.Warnings {
			codes = append(codes, w.Code)
		}
		if r.Valid != c.valid || strings.Join(codes, " ") != c.code {
			t.Errorf("%s: valid %v, warnings %q, want %v, %q", c.file, r.Valid, codes, c.valid, c.code)
		}
	}
}

// A record of a tare without manifests is read as before.
func TestRecordWithoutManifest(t *testing.T) {
	d := create(t)
	dir := sealed(t, d)
	must.OK(t, os.Remove(filepath.Join(dir, result.ManifestFile)))
	if records, err := d.Records(); err != nil || len(records) != 1 || !records[0].Valid {
		t.Errorf("%+v, %v", records, err)
	}
}

// A manifest is there before the record: the record makes the trial complete.
func TestManifestBeforeRecord(t *testing.T) {
	d := create(t)
	trial := d.Plan().Trials[0]
	td := must.Get(d.Trial(trial))(t)
	// The record cannot be written: its place is taken.
	must.OK(t, os.MkdirAll(filepath.Join(td.Path(result.RecordFile), "in the way"), 0o755))
	if err := td.Finish(recordOf(trial)); err == nil {
		t.Fatal("the record was written over a directory")
	}
	if m, err := d.Manifest(trial.ID); err != nil || m == nil {
		t.Errorf("manifest %v, %v", m, err)
	}
	must.OK(t, os.RemoveAll(td.Path(result.RecordFile)))
	if pending, err := d.Pending(); err != nil || len(pending) != 4 {
		t.Errorf("%d trials pending, %v, want 4: a manifest alone is no trial", len(pending), err)
	}
}
