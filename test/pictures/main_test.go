package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/must"
)

// The packed run is complete: tare verify finds no problem, also after it was packed again.
func TestPackedRunVerifies(t *testing.T) {
	t.Chdir("../..")
	first, second := t.TempDir(), t.TempDir()
	clitest.Unpack(t, runFile, first)
	again := must.Get(pack(first))(t)
	archive := filepath.Join(t.TempDir(), "again.tar.gz")
	must.OK(t, os.WriteFile(archive, again, 0o600))
	clitest.Unpack(t, archive, second)
	for _, dir := range []string{first, second} {
		r := must.Get(verify.Dir(dir, verify.Options{Expand: func(string) (*plan.Plan, error) { return nil, errors.New("not compared") }}))(t)
		if r.Recorded != r.Planned || r.Files < 10*r.Planned || r.Problems() > 0 {
			t.Errorf("%d trials of %d, %d files: %+v", r.Recorded, r.Planned, r.Files, r.Findings[:min(3, len(r.Findings))])
		}
	}
}

// Nobody can build a tare with uncommitted changes again.
func TestUncommittedRunIsRefused(t *testing.T) {
	dir := t.TempDir()
	clitest.Unpack(t, "../../"+runFile, dir)
	file := filepath.Join(dir, result.EnvironmentFile)
	text := must.Get(os.ReadFile(file))(t)
	for version, want := range map[string]bool{"0123456": true, "0123456-dirty": false} {
		changed := regexp.MustCompile(`"tare": "[^"]*"`).ReplaceAll(text, []byte(`"tare": "`+version+`"`))
		must.OK(t, os.WriteFile(file, changed, 0o600))
		if err := committed(dir); (err == nil) != want {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// The figures of README and methodology, and the README's first sentences, come from the run that is kept beside them.
func TestPicturesAreOfTheirRun(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the last digits of coordinates depend on fused multiplications")
	}
	t.Chdir("../..")
	dir := t.TempDir()
	clitest.Unpack(t, runFile, dir)
	drawn, r, err := draw(dir)
	must.OK(t, err)
	readme := must.Get(os.ReadFile("README.md"))(t)
	for _, id := range figures {
		kept := must.Get(os.ReadFile(picture(id)))(t)
		if !bytes.Equal(kept, drawn[id]) {
			t.Errorf("%s is not the figure of %s: make pictures", picture(id), runFile)
		}
		if !strings.Contains(string(readme), "("+picture(id)+")") {
			t.Errorf("the README does not show %s", picture(id))
		}
	}
	ofSlices := must.Get(drawSlices(dir))(t)
	for name, again := range ofSlices {
		kept, err := os.ReadFile(filepath.Join(slicesDir, name))
		if err != nil || !bytes.Equal(kept, again) {
			t.Errorf("%s of the methodology is not of %s: make pictures, %v", name, runFile, err)
		}
	}
	for _, s := range report.Answer(r) {
		must.Contain(t, string(readme), s)
	}
}
