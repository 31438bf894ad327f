package verify_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
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

// sign signs a directory as `tare sign` does.
func sign(t *testing.T, dir string) verify.Options {
	t.Helper()
	must.OK(t, result.Seal(dir))
	key := must.Get(verify.PrivateKey(file(t, "testdata/plain.key"), nil))(t)
	signature := must.Get(verify.Sign(file(t, filepath.Join(dir, result.ManifestFile)), key, time.Unix(1700000000, 0)))(t)
	must.OK(t, result.Add(dir, result.SignatureFile, signature))
	public := must.Get(verify.PublicKey(file(t, "testdata/plain.pub")))(t)
	return verify.Options{Key: public}
}

func problems(t *testing.T, dir string, o verify.Options) (files []string) {
	t.Helper()
	r := must.Get(verify.Dir(dir, o))(t)
	for _, f := range r.Findings {
		if f.Severity == verify.Problem && !slices.Contains(files, f.File) {
			files = append(files, f.File)
		}
	}
	if len(files) == 0 && o.Key != nil && r.Signed == nil {
		t.Error("the signature does not hold")
	}
	return files
}

// stopped is an early end after the first block, as a run that decided its gates writes it.
func stopped(t *testing.T) string {
	t.Helper()
	b := must.Get(json.Marshal(result.Stopped{Schema: result.Schema, Block: 1, Why: "time is over", Last: true}))(t)
	return string(b)
}

// A file that was added to a signed directory is a problem, and an early end that was added is never used.
func TestAddedFiles(t *testing.T) {
	for _, name := range []string{result.StoppedFile, result.OriginsFile, result.OriginalsFile, "report.html", "notes/README.md",
		"trials/001-none/latency-measure.hdr", "trials/002-envoy/slices.csv", "trials/002-envoy/provenance/pod.json", "trials/003-none/record.json"} {
		dir := run(t)
		o := sign(t, dir)
		if found := problems(t, dir, o); found != nil {
			t.Fatalf("problems of the signed directory: %q", found)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		put(t, path, stopped(t))
		if found := problems(t, dir, o); !slices.Equal(found, []string{name}) {
			t.Errorf("%s was added: problems of %q", name, found)
		}
	}
	for signed, want := range map[string]func(string){"signed": func(dir string) { sign(t, dir) }, "not signed": func(string) {}} {
		dir := run(t)
		want(dir)
		put(t, filepath.Join(dir, result.StoppedFile), stopped(t))
		d := must.Get(result.Open(dir))(t)
		if _, err := d.Stopped(); err == nil {
			t.Errorf("%s: the added %s was read", signed, result.StoppedFile)
		}
		if found := problems(t, dir, verify.Options{}); !slices.Equal(found, []string{result.StoppedFile}) {
			t.Errorf("%s: problems of %q", signed, found)
		}
	}
}

// A signature covers the page and what else is in the directory when it is signed.
func TestSignedPage(t *testing.T) {
	dir := run(t)
	put(t, filepath.Join(dir, "README.md"), "ours\n")
	must.OK(t, result.Add(dir, "report.html", []byte("<p>\n")))
	if found := problems(t, dir, verify.Options{}); found != nil {
		t.Errorf("problems before it is signed: %q", found)
	}
	o := sign(t, dir)
	for _, name := range []string{"report.html", "README.md"} {
		was := file(t, filepath.Join(dir, name))
		put(t, filepath.Join(dir, name), "theirs\n")
		if found := problems(t, dir, o); !slices.Equal(found, []string{name}) {
			t.Errorf("%s was replaced: problems of %q", name, found)
		}
		put(t, filepath.Join(dir, name), string(was))
	}
	if found := problems(t, dir, o); found != nil {
		t.Errorf("problems of the signed directory: %q", found)
	}
}
