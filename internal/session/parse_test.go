package session

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/test/must"
)

// The name of an example is the example's, also beside a directory of that name. A directory with an experiment file is named with it.
func TestReadBesideADirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	must.OK(t, os.Mkdir("starts", 0o750))
	p := NewProgram("", nil)
	if s := must.Get(p.Read(t.Context(), "starts", Options{}))(t); s.Experiment.Metadata.Name != "starts" {
		t.Errorf("read %q", s.Experiment.Metadata.Name)
	}
	must.OK(t, os.WriteFile(filepath.Join("starts", "experiment.yaml"), nil, 0o600))
	err := must.Err(p.Read(t.Context(), "starts", Options{}))
	must.Fail(t, err, "starts is a directory")
	must.Contain(t, hint.Of(err), "starts/experiment.yaml")
}
