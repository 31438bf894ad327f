//go:build unix

package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// ohaRows is oha's CSV of n requests; some fail.
func ohaRows(n int) string {
	var b strings.Builder
	b.WriteString("request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status\n")
	for i := range n {
		status := 200
		if i%50 == 49 {
			status = 503
		}
		fmt.Fprintf(&b, "%.6f,0,0,%.6f,%.6f,128,%d\n", float64(i)/1000, 0.0001+float64(i%97)/1e5, 0.0002+float64(i%89)/1e5, status)
	}
	return b.String()
}

// Reading in parts gives the figures of reading the whole.
func TestStreamedOutput(t *testing.T) {
	for _, corrected := range []bool{false, true} {
		text := ohaRows(20000)
		path := must.File(t, t.TempDir(), "oha.csv", text)
		streamed, err := streamOutput("oha", path, corrected)
		if err != nil || streamed == nil {
			t.Fatalf("%v, %v", streamed, err)
		}
		whole := must.Get(ParseOutput("oha", path, []byte(text), corrected))(t)
		whole.warnings = nil // notes about the output's kind
		streamed.warnings = nil
		if !reflect.DeepEqual(streamed, whole) {
			t.Errorf("corrected %v: in parts\n%+v\nwhole\n%+v", corrected, streamed, whole)
		}
	}
}

// A device or FIFO neither blocks nor fills the memory, and its error names it.
func TestOutputsThatAreNoFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	must.OK(t, syscall.Mkfifo(fifo, 0o600))
	for _, f := range formats {
		for _, path := range []string{"/dev/zero", fifo} {
			must.Fail(t, must.Err(readOutput(f.name, path, Options{})), path+": not a regular file", f.name, path)
		}
	}
}

// An oha CSV with a torn row has its line in the error.
func TestStreamedOutputThatIsDamaged(t *testing.T) {
	path := must.File(t, t.TempDir(), "oha.csv", ohaRows(3)+"0.004,0,0\n")
	if _, err := readOutput("oha", path, Options{}); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "line 5") {
		t.Errorf("%v", err)
	}
}

// A file that cannot be read, or that is too large, fails its own trial. It is neither kept nor read for its digest.
func TestImportBesideUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	good, fifo, sparse := filepath.Join(dir, "good.json"), filepath.Join(dir, "fifo.json"), filepath.Join(dir, "sparse.json")
	must.OK(t, errors.Join(os.WriteFile(good, []byte(outputSeeds["fortio"][0]), 0o600), syscall.Mkfifo(fifo, 0o600), os.WriteFile(sparse, nil, 0o600), os.Truncate(sparse, maxFile+1)))
	i := slices.IndexFunc(Generators(), func(s Source) bool { return s.Name == "fortio" })
	s := must.Get(Generators()[i].Read([]string{good, fifo, sparse}, Options{}.KeepOriginals()))(t)
	if failed, _ := s.Failed(); failed != 2 || len(s.Trials) != 3 {
		t.Fatalf("%d of %d failed", failed, len(s.Trials))
	}
	out := filepath.Join(dir, "results")
	must.OK(t, Write(out, s, result.Environment{}))
	b := must.Get(os.ReadFile(filepath.Join(out, originsFile)))(t)
	var origins []origin
	if err := json.Unmarshal(b, &origins); err != nil || len(origins) != 3 {
		t.Fatalf("%v\n%s", err, b)
	}
	for _, o := range origins {
		if (o.SHA256 != "") != (o.Path == good) || (o.Copied != "") != (o.Path == good) {
			t.Errorf("%+v", o)
		}
	}
}

// An import that fails while it is written removes its directory.
func TestFailedImportLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	good, out := filepath.Join(dir, "good.json"), filepath.Join(dir, "results")
	must.OK(t, os.WriteFile(good, []byte(outputSeeds["fortio"][0]), 0o600))
	i := slices.IndexFunc(Generators(), func(s Source) bool { return s.Name == "fortio" })
	s := must.Get(Generators()[i].Read([]string{good}, Options{}))(t)
	must.OK(t, os.Rename(good, good+".moved"))
	must.Fail(t, Write(out, s, result.Environment{}), good)
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
	if err := os.Mkdir(out, 0o700); err != nil { // the user's own
		t.Fatal(err)
	}
	if err := Write(out, s, result.Environment{}); err == nil {
		t.Error("a run that is missing was imported")
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("the user's directory has %v, %v", left, err)
	}
	if err := errors.Join(os.Rename(good+".moved", good), Write(out, s, result.Environment{})); err != nil {
		t.Error(err)
	}
}
