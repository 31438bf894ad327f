package release

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// The programs for arm64 run under qemu's emulation of system calls.
func TestARM64(t *testing.T) {
	r := built(t)
	if runtime.GOARCH == "arm64" || !slices.Contains(targets, "linux/arm64") {
		t.Skip("nothing to emulate")
	}
	qemu := cached(t, "usr/bin/qemu-aarch64-static")
	dir := r.unpacked(t, "linux/arm64")
	arm := func(program string, args ...string) string {
		t.Helper()
		command := exec.Command(qemu, append([]string{filepath.Join(dir, program)}, args...)...)
		command.Dir = dir
		return run(t, command)
	}
	for _, program := range []string{"tare", "tare-agent", "tare-kube"} {
		name := strings.Replace(program, "tare-kube", "tare", 1)
		if got := arm(program, "--version"); got != name+" "+version+"\n" {
			t.Errorf("%s: %s", program, got)
		}
	}
	must.Contain(t, arm("tare", "plan", "examples/quickstart.yaml"), "24 trials")
}
