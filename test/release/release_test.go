// Package release tests the packages of `make release-snapshot`.
package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is an ordinary user without a home.
const nobody = "65534"

// The deb is installed into an empty root. There an ordinary user runs the quickstart with the reference proxy, in which
// nothing but the package is needed.
func TestPackageRuns(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" || os.Getuid() != 0 {
		t.Skip("it builds packages, and changes its root directory: make e2e-all runs it as root")
	}
	out, root := t.TempDir(), t.TempDir()
	run := func(command *exec.Cmd) string {
		t.Helper()
		text, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", command.Args, err, text)
		}
		return string(text)
	}
	build := exec.Command("../../tools/release/build.sh")
	build.Env = append(os.Environ(), "OUT="+out, "TARGETS=linux/"+runtime.GOARCH, "VERSION=v0.0.9")
	sums := run(build)
	for _, kind := range []string{".tar.gz", ".deb", ".rpm", ".apk"} {
		if !strings.Contains(sums, kind+"\n") {
			t.Errorf("no %s among\n%s", kind, sums)
		}
	}
	check := exec.Command("sha256sum", "--check", "--quiet", "SHA256SUMS")
	check.Dir = out
	run(check)

	debs, _ := filepath.Glob(filepath.Join(out, "*.deb"))
	if len(debs) != 1 {
		t.Fatalf("packages: %v", debs)
	}
	for _, dir := range []string{"proc", "dev", "tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run(exec.Command("dpkg", "--root="+root, "--install", debs[0]))
	if err := unix.Mknod(filepath.Join(root, "dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Skipf("this machine makes no devices: %v", err)
	}
	for path, mode := range map[string]os.FileMode{root: 0o755, filepath.Join(root, "dev/null"): 0o666, filepath.Join(root, "tmp"): 0o777 | os.ModeSticky} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	inside := func(args ...string) string {
		t.Helper()
		command := exec.Command("unshare", append([]string{"--pid", "--fork", "--root=" + root, "--mount-proc", "--setgid=" + nobody, "--setuid=" + nobody, "--wd=/tmp", "--", "/usr/bin/tare"}, args...)...)
		command.Env = []string{"PATH=/usr/bin", "HOME=/tmp", "TMPDIR=/tmp"}
		return run(command)
	}
	if got := inside("--version"); got != "tare v0.0.9\n" {
		t.Errorf("version: %s", got)
	}
	report := inside("run", "/usr/share/doc/tare/examples/quickstart.yaml", "--plain", "--out", "/tmp/results",
		"--set", "factors.mesh=[none, reference]", "--set", "blocks=3", "--set", "phases={warmup: 1s, measure: 2s, drain: 1s}",
		"--set", "factors.rate=[100]", "--set", "validity={lateness: 1s, rateShortfall: 1, generatorCPU: 1, errorRatio: 1}")
	if !strings.Contains(report, "CPU/request, total") || !strings.Contains(report, "/tmp/results/report.html") {
		t.Errorf("no report:\n%s", report)
	}
	if left := run(exec.Command("dpkg", "--root="+root, "--remove", "tare")); !strings.Contains(left, "Removing tare") {
		t.Errorf("remove: %s", left)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/tare")); err == nil {
		t.Error("the removed package left /usr/bin/tare")
	}
}
