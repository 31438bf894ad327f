package kubecli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/part"
	"github.com/tare-mesh/tare/test/programtest"
)

// In scripts both programs are the test binary, under their names.
func TestMain(m *testing.M) {
	testscript.Main(cleaning{part.M{M: m}}, map[string]func(){
		"tare":      func() { os.Exit(cli.Main(nil)) },
		"tare-kube": func() { os.Exit(cli.Main(Kubernetes())) },
	})
}

// cleaning runs the tests and removes the files that they share.
type cleaning struct{ part.M }

// Run implements [testscript.TestingM].
func (m cleaning) Run() int {
	code := m.M.Run()
	if sharedPrograms != "" {
		_ = os.RemoveAll(sharedPrograms)
	}
	return code
}

// Scripts are whole sessions at the command line: testdata/script/*.txtar. Beside
// testscript's own commands there is
//
//	exits CODE COMMAND…       run a command that must exit with CODE
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": clitest.Exits},
	})
}

// call runs one command of tare-kube in this process.
func call(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	root := cli.New(console.Console{In: strings.NewReader(""), Out: &out, Err: &out}, Kubernetes()).Root()
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}

// programs builds tare, tare-kube and tare-agent beside each other.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, programtest.Build(dir, "tare", "tare-kube", "tare-agent"))
	return dir
}
