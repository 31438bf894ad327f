package engine

import (
	"os"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/load"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	path := must.File(t, t.TempDir(), "times", "# seconds\n0.2\n0.1\n\n0.25\n0.3\n0.9\n")
	p := profile(rawServer(t, replying(helloResponse)))
	p.Warmup, p.Workers, p.Arrivals, p.ReplayFile = 0, 2, load.Replay, path
	if r := mustRun(t, p); r.Classes[load.OK] != 4 { // 0.9 s is after the window
		t.Errorf("%v", r.Classes)
	}
	must.OK(t, os.WriteFile(path, []byte("0.1\nsoon\n"), 0o600))
	must.Fail(t, must.Err(Run(t.Context(), p, nil)), `times:2: "soon" is not`)
}
