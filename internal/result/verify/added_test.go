//go:build unix

package verify_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/test/must"
)

// run makes the directory of an interrupted run: the first of two blocks has a record. The second trial's deployment was
// not seen to end.
func run(t *testing.T) string {
	t.Helper()
	p := &plan.Plan{Experiment: "small", Blocks: 2, Treatments: []plan.Treatment{{ID: "none"}, {ID: "envoy"}}, Trials: []plan.Trial{
		{ID: "001-none", Ordinal: 1, Block: 1, Treatment: "none"}, {ID: "002-envoy", Ordinal: 2, Block: 1, Treatment: "envoy"},
		{ID: "003-none", Ordinal: 3, Block: 2, Treatment: "none"}, {ID: "004-envoy", Ordinal: 4, Block: 2, Treatment: "envoy"},
	}}
	d := must.Get(result.Create(filepath.Join(t.TempDir(), "run"), []byte("kind: Experiment\n"), p, result.Environment{Platform: "import", Tare: "v1"}))(t)
	for _, trial := range p.Trials[:2] {
		td := must.Get(d.Trial(trial))(t)
		must.OK(t, td.Event(result.Event{Kind: result.KindDone, Trial: trial.ID}))
		must.OK(t, td.Finish(result.Record{ID: trial.ID, Ordinal: trial.Ordinal, Block: trial.Block, Treatment: trial.Treatment, Valid: true}))
		if trial.Ordinal == 1 {
			must.OK(t, td.Seal())
		}
	}
	must.OK(t, d.Close())
	return d.Path()
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(name))(t)
	return b
}

func put(t *testing.T, path, content string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(content), 0o600))
}

func problems(t *testing.T, dir string) (files []string) {
	t.Helper()
	r := must.Get(verify.Dir(dir, verify.Options{}))(t)
	for _, f := range r.Findings {
		if f.Severity == verify.Problem && !slices.Contains(files, f.File) {
			files = append(files, f.File)
		}
	}
	return files
}

// stopped is an early end after the first block, as a run that decided its gates writes it.
func stopped(t *testing.T) string {
	t.Helper()
	b := must.Get(json.Marshal(result.Stopped{Schema: result.Schema, Block: 1, Why: "time is over", Last: true}))(t)
	return string(b)
}

// What was added to an ended run is a problem, and an early end that was added is never used.
func TestAddedFiles(t *testing.T) {
	for _, name := range []string{result.StoppedFile, result.OriginsFile, result.OriginalsFile, "report.html", "notes/README.md", result.ManifestFile,
		"trials/001-none/latency-measure.hdr", "trials/001-none/provenance/pod.json", "trials/001-none.partial/events.jsonl",
		"trials/002-envoy/slices.csv", "trials/003-none/record.json"} {
		dir := run(t)
		if found := problems(t, dir); found != nil {
			t.Fatalf("problems of the directory: %q", found)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		put(t, path, stopped(t))
		if found := problems(t, dir); !slices.Equal(found, []string{name}) {
			t.Errorf("%s was added: problems of %q", name, found)
		}
	}
	for name, add := range map[string]func(string) error{
		"empty":                func(path string) error { return os.Mkdir(path, 0o755) },
		"trials/001-none/more": func(path string) error { return os.Mkdir(path, 0o755) },
		"fifo":                 func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":                 func(path string) error { return os.Symlink("plan.json", path) },
	} {
		dir := run(t)
		must.OK(t, add(filepath.Join(dir, filepath.FromSlash(name))))
		if found := problems(t, dir); !slices.Equal(found, []string{name}) {
			t.Errorf("%s was added: problems of %q", name, found)
		}
	}
	dir := run(t)
	for _, name := range []string{result.LockFile, result.SumsFile + ".minisig"} {
		put(t, filepath.Join(dir, name), "")
		r := must.Get(verify.Dir(dir, verify.Options{}))(t)
		if !slices.ContainsFunc(r.Findings, func(f verify.Finding) bool { return f.File == name && f.Severity == verify.Note }) {
			t.Errorf("%s has no note: %+v", name, r.Findings)
		}
	}
	d := must.Get(result.Open(dir))(t)
	put(t, filepath.Join(dir, result.StoppedFile), stopped(t))
	if _, err := d.Stopped(); err == nil {
		t.Errorf("the added %s was read", result.StoppedFile)
	}
}

// Every file of an ended run that is missing or changed is named, and no other.
func TestMissingAndChangedFiles(t *testing.T) {
	whole := run(t)
	must.OK(t, result.Add(whole, "report.html", []byte("<p>\n")))
	if found := problems(t, whole); found != nil {
		t.Fatalf("problems of the directory: %q", found)
	}
	of := must.Get(must.Get(result.Open(whole))(t).Own())(t)
	if len(of.Sums) != 10 {
		t.Errorf("%d files: %v", len(of.Sums), of.Sums)
	}
	for name := range of.Sums {
		for how, change := range map[string]func(string) error{"removed": os.Remove, "longer": func(path string) error {
			return os.WriteFile(path, append(file(t, path), " \n"...), 0o600)
		}} {
			dir := filepath.Join(t.TempDir(), "run")
			must.OK(t, os.CopyFS(dir, os.DirFS(whole)))
			must.OK(t, change(filepath.Join(dir, filepath.FromSlash(name))))
			found := []string{"cannot be opened"}
			if _, err := verify.Dir(dir, verify.Options{}); err == nil {
				found = problems(t, dir)
			}
			if name == result.ExperimentFile || name == result.EnvironmentFile || name == result.PlanFile {
				if len(found) == 0 {
					t.Errorf("%s %s: no problem", name, how)
				}
			} else if !slices.Equal(found, []string{name}) {
				t.Errorf("%s %s: problems of %q", name, how, found)
			}
		}
	}
	for name, remove := range map[string]string{"trials/001-none/record.json": "trials/001-none", "trials/002-envoy/record.json": "trials/002-envoy/record.json"} {
		dir := filepath.Join(t.TempDir(), "run")
		must.OK(t, os.CopyFS(dir, os.DirFS(whole)))
		must.OK(t, os.RemoveAll(filepath.Join(dir, filepath.FromSlash(remove))))
		if found := problems(t, dir); !slices.Contains(found, name) {
			t.Errorf("%s was removed: problems of %q", remove, found)
		}
	}
}

// A list of an older tare has the files beside the trials and their manifests. A record that is missing is found by both,
// and a trial whose files were all removed by the list.
func TestOlderList(t *testing.T) {
	older := func() string {
		dir := run(t)
		var files []result.File
		for _, name := range []string{"environment.json", "experiment.yaml", "plan.json", "trials/001-none/manifest.json", "trials/002-envoy/manifest.json"} {
			files = append(files, must.Get(result.Digest(dir, name))(t))
		}
		put(t, filepath.Join(dir, result.ManifestFile), string(must.Get(json.Marshal(result.Manifest{Schema: result.Schema, Files: files}))(t)))
		put(t, filepath.Join(dir, "manifest.json.minisig"), "a signature")
		put(t, filepath.Join(dir, "README.md"), "ours")
		must.OK(t, os.Remove(filepath.Join(dir, result.SumsFile)))
		return dir
	}
	dir := older()
	if found := problems(t, dir); found != nil {
		t.Errorf("problems of the directory: %q", found)
	}
	var notes []string
	for _, f := range must.Get(verify.Dir(dir, verify.Options{}))(t).Findings {
		notes = append(notes, f.File+" "+f.Message)
	}
	must.Contain(t, strings.Join(notes, "\n"), "manifest.json.minisig the signature is not checked", "Whether some are missing is unknown")
	for remove, want := range map[string]string{"trials/001-none/record.json": "trials/001-none/record.json", "trials/002-envoy/record.json": "trials/002-envoy/record.json",
		"trials/001-none": "trials/001-none/manifest.json", "plan.json": "?"} {
		dir := older()
		must.OK(t, os.RemoveAll(filepath.Join(dir, filepath.FromSlash(remove))))
		if want == "?" {
			must.Err(verify.Dir(dir, verify.Options{}))
			continue
		}
		if found := problems(t, dir); !slices.Contains(found, want) {
			t.Errorf("%s was removed: problems of %q", remove, found)
		}
		_, err := must.Get(result.Open(dir))(t).Records()
		must.Fail(t, err, "record.json: the file is missing", remove)
	}
}

// No file below the directory is read through a link, and the text of its target is in no message.
func TestLinksAreNotFollowed(t *testing.T) {
	for _, name := range []string{"plan.json", "experiment.yaml", "environment.json", "SHA256SUMS", "trials", "trials/001-none", "trials/001-none/record.json",
		"trials/001-none/events.jsonl", "trials/001-none/manifest.json"} {
		dir, elsewhere := run(t), filepath.Join(t.TempDir(), "elsewhere")
		path := filepath.Join(dir, filepath.FromSlash(name))
		info := must.Get(os.Stat(path))(t)
		if must.OK(t, os.Rename(path, elsewhere)); !info.IsDir() {
			put(t, elsewhere, "machine example password S3CRET")
		}
		must.OK(t, os.Symlink(elsewhere, path))
		var text string
		if r, err := verify.Dir(dir, verify.Options{}); err == nil {
			if !slices.ContainsFunc(r.Findings, func(f verify.Finding) bool {
				return f.Severity == verify.Problem && strings.HasPrefix(name, f.File) && strings.Contains(f.Message, "symbolic link")
			}) {
				t.Errorf("%s: %+v", name, r.Findings)
			}
			text = fmt.Sprint(r)
		} else if text = err.Error(); !strings.Contains(text, "symbolic link") {
			t.Errorf("%s: %v", name, err)
		}
		if d, err := result.Open(dir); err == nil {
			records, err := d.Records()
			if text += fmt.Sprint(err); err == nil && len(records) == 2 && strings.HasSuffix(name, result.RecordFile) {
				t.Errorf("%s: records were read", name)
			}
		}
		if strings.Contains(text, "S3CRET") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
