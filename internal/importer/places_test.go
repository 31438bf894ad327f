package importer

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// Directories of one name are different meshes.
func TestMeshesOf(t *testing.T) {
	for _, test := range []struct{ dirs, want string }{
		{"/r/istio /r/linkerd-00 /r/linkerd-01", "istio linkerd linkerd"},
		{"/r/istio/results /r/linkerd/results /r/baseline/results", "istio linkerd baseline"},
		{"/r/a/x/out /r/a/y/out /r/b/x/out", "a-x a-y b-x"},
		{"/r/V1/linkerd-00 /r/V1/linkerd-01 /r/V1/istio /r/V2/linkerd-00 /r/V2/istio", "V1-linkerd V1-linkerd V1-istio V2-linkerd V2-istio"},
		{"/r/istio/run1 /r/istio/run2 /r/none", "run1 run2 none"},
		{"/r/results /r/results/results", "results results"},
	} {
		dirs := strings.Fields(test.dirs)
		meshes := MeshesOf(dirs)
		var got []string
		for _, d := range dirs {
			got = append(got, meshes[d])
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %s, want %s", test.dirs, strings.Join(got, " "), test.want)
		}
	}
}

// Two files of one directory are two treatments, unless their names differ by numbers only.
func TestMeshesOfFiles(t *testing.T) {
	for files, want := range map[string]string{
		"d/without.json d/with.json":                         "without with",
		"d/istio-1.json d/istio-2.json d/none_1.json":        "istio istio none",
		"d/istio.run1.csv d/linkerd.run1.csv":                "istio linkerd",
		"d/run1.json d/run2.json":                            "d d",
		"d/600-1.log d/600-2.log d/1200-1.log":               "d d d",
		"d/2024-05-01-100000.json d/2024-05-02-110000.json":  "d d",
		"a/with.json b/without.json a/x.json":                "a b a",
		"d/one.json":                                         "d",
		"d/v2.json d/other.json":                             "d d",
		"d/envoy-500rps.txt d/envoy-1000rps.txt d/plain.txt": "envoy envoy plain",
	} {
		paths := strings.Fields(files)
		meshes := meshesOfFiles(paths)
		var got []string
		for _, path := range paths {
			got = append(got, meshes[path])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", files, got, want)
		}
	}
}

// lay writes files below a new directory.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)))
	}
	return root
}

// fortioAt is a run at a time of day.
func fortioAt(clock string) string {
	return strings.Replace(fortioSeed, "{", `{"StartTime":"2024-05-01T`+clock+`Z",`, 1)
}

// Files beside results are skipped, runs are in the order of time, and copies are left out.
func TestFilesOfDirectories(t *testing.T) {
	root := lay(t, map[string]string{
		"istio/results/b.json": fortioAt("10:00:00"), "istio/results/a.json": fortioAt("11:00:00"),
		"linkerd/results/a.json": fortioAt("10:30:00"),
		"README.md":              "# Results\n", "istio/.DS_Store": "\x00\x00", "istio/results/page.html": "<html>", "istio/results/run": "#!/bin/sh\nfortio load\n",
		"package.json": `{"name": "x", "scripts": {}}`, "istio/results/notes.json": `["a", {"b": 1}]`, "linkerd/results/a.vegeta.json": `{"latencies": {"mean": 1}}`,
	})
	s := read(t, "fortio", root)
	var got []string
	for i := range s.Trials {
		tr := &s.Trials[i]
		got = append(got, tr.Mesh+"/"+filepath.Base(tr.Files[0])+" "+line(tr)[:5])
	}
	if want := []string{"istio/b.json valid", "linkerd/a.json valid", "istio/a.json valid"}; !slices.Equal(got, want) || len(s.Skipped) != 7 {
		t.Errorf("%q, skipped %q", got, s.Skipped)
	}
	named := read(t, "fortio", filepath.Join(root, "README.md"), filepath.Join(root, "linkerd/results/a.json")) // as of a shell
	if len(named.Trials) != 1 || len(named.Skipped) != 1 {
		t.Errorf("%d trials, skipped %q", len(named.Trials), named.Skipped)
	}
	if r := s.Trials[0].Record; r.Ended.Sub(r.Started).Seconds() != 10 || !r.Load.Start.Equal(r.Started) {
		t.Errorf("from %v to %v, load from %v", r.Started, r.Ended, r.Load.Start)
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string // validity in the order of names
	}{
		{"a copy", map[string]string{"istio/run1.json": fortioSeed, "istio/run2.json": fortioSeed}, "valid inval"},
		{"another mesh has a copy", map[string]string{"istio/a.json": fortioSeed, "linkerd/a.json": fortioSeed, "none/a.json": fortioAt("10:00:00")}, "inval inval valid"},
		{"another format of a run", map[string]string{"m/1.json": fortioAt("10:00:00"), "m/2.json": fortioAt("10:00:00") + "\n"}, "valid inval"},
		{"runs at one time", map[string]string{"m/rep-1.json": fortioAt("10:00:00"), "m/rep-2.json": fortioAt("10:00:05"), "m/rep-3.json": fortioAt("10:00:15")}, "inval inval valid"},
	} {
		s := read(t, "fortio", lay(t, test.files))
		validity := map[string]string{}
		for i := range s.Trials {
			validity[s.Trials[i].Files[0]] = line(&s.Trials[i])[:5]
		}
		var got []string
		for _, path := range slices.Sorted(maps.Keys(validity)) {
			got = append(got, validity[path])
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %s", test.name, got, test.want)
		}
	}
}

// The time of a record of requests ends with the last response.
func TestTimeOfRecords(t *testing.T) {
	text := "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status\n0.0,0,0,0,4,2,200\n0.5,0,0,0,4,2,200\n1.0,0,0,0,4,2,200\n"
	if tr := importFile(t, "oha", "a.csv", text); tr.Record.Load.MeasureSeconds != 5 || tr.sent != 2 {
		t.Errorf("%v s, %v/s", tr.Record.Load.MeasureSeconds, tr.sent)
	}
	if tr := importFile(t, "vegeta", "a.json", vegetaJSON); tr.Record.Load.BytesIn != 1230 || tr.Record.Started.Year() != 2025 {
		t.Errorf("%d bytes, started %v", tr.Record.Load.BytesIn, tr.Record.Started)
	}
}

// A copy is as private as the file.
func TestOriginalsAreAsPrivate(t *testing.T) {
	for mode, want := range map[os.FileMode]os.FileMode{0o600: 0o600, 0o640: 0o600, 0o644: 0o644} {
		root := lay(t, map[string]string{"m/a.json": fortioAt("10:00:00")})
		must.OK(t, os.Chmod(filepath.Join(root, "m/a.json"), mode))
		out := filepath.Join(t.TempDir(), "out")
		must.OK(t, Write(out, read(t, "fortio", root), result.Environment{}))
		if info := must.Get(os.Stat(filepath.Join(out, originalsFile)))(t); info.Mode().Perm() != want {
			t.Errorf("of a file with mode %v: %v, want %v", mode, info.Mode(), want)
		}
	}
}
