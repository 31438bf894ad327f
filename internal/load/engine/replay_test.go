package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "times")
	must.OK(t, os.WriteFile(path, []byte("# seconds\n0.2\n0.1\n\n0.25\n0.3\n0.9\n"), 0o600))
	p := profile(rawServer(t, replying(helloResponse)))
	p.Warmup, p.Workers, p.Arrivals, p.ReplayFile = 0, 2, load.Replay, path
	if r := mustRun(t, p); r.Classes[load.OK] != 4 { // 0.9 s is after the window
		t.Errorf("%v", r.Classes)
	}
	must.OK(t, os.WriteFile(path, []byte("0.1\nsoon\n"), 0o600))
	if _, err := Run(t.Context(), p, nil); err == nil || !strings.Contains(err.Error(), `times:2: "soon" is not`) {
		t.Errorf("%v", err)
	}
}
