package kubecli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/must"
)

// Output that cannot be written is a failure of commands that tare-kube has, which tare starts.
func TestFullOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	bin, dir := filepath.Join(programs(t), "tare"), t.TempDir()
	file := filepath.Join(dir, "x.yaml")
	must.OK(t, os.WriteFile(file, []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: dry}\nfactors: {mesh: [none]}\nblocks: 1\n"), 0o600))
	for _, call := range []string{"run " + file + " --set platform.kind=kubernetes --dry-run", "cluster rbac", "cluster create --with kind --dry-run", "mesh list", "mesh --help", "cluster --help", "cluster rbac --help"} {
		exit := func(out *os.File) (code int, stderr string) {
			cmd := exec.Command(bin, strings.Fields(call)...)
			var text bytes.Buffer
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, &text
			_ = cmd.Run()
			return cmd.ProcessState.ExitCode(), text.String()
		}
		printed := must.Get(os.Create(filepath.Join(dir, "out")))(t)
		code, stderr := exit(printed)
		must.OK(t, printed.Close())
		if n := must.Get(os.Stat(printed.Name()))(t).Size(); code != console.Done || n == 0 {
			t.Errorf("tare %s prints %d bytes: exit code %d, %s", call, n, code, stderr)
		}
		full := must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
		if code, stderr := exit(full); code != console.Failed || !strings.Contains(stderr, "no space left on device") {
			t.Errorf("tare %s: exit code %d, %s", call, code, stderr)
		}
		must.OK(t, full.Close())
	}
}
