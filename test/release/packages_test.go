package release

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// nobody is an ordinary user without a home.
const nobody = "65534"

// inside runs a program as an ordinary user in another root directory, with processes of its own.
func inside(root string, env []string, args ...string) *exec.Cmd {
	command := exec.Command("unshare", append([]string{"--pid", "--fork", "--root=" + root, "--mount-proc", "--setgid=" + nobody, "--setuid=" + nobody, "--wd=/tmp", "--"}, args...)...)
	command.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp"}, env...)
	return command
}

// devices makes the root usable for processes.
func devices(t *testing.T, root string) {
	t.Helper()
	for path, mode := range map[string]os.FileMode{"proc": 0o755, "dev": 0o755, "tmp": 0o777 | os.ModeSticky} {
		must.OK(t, os.MkdirAll(filepath.Join(root, path), 0o755))
		must.OK(t, os.Chmod(filepath.Join(root, path), mode))
	}
	null := filepath.Join(root, "dev/null")
	if err := unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil && err != unix.EEXIST {
		programtest.Missing(t, fmt.Errorf("this machine makes no devices: %w", err), "it in a privileged container")
	}
	for path, mode := range map[string]os.FileMode{root: 0o755, null: 0o666} {
		must.OK(t, os.Chmod(path, mode))
	}
}

// quickstart is the experiment of the package, shortened. Its limits hold on a busy machine.
func quickstart(mesh string) []string {
	return []string{"/usr/bin/tare", "run", "/usr/share/doc/tare/examples/quickstart.yaml", "--plain", "--out", "/tmp/results",
		"--set", "factors.mesh=[none, " + mesh + "]", "--set", "blocks=3", "--set", "phases={warmup: 1s, measure: 2s, drain: 1s}",
		"--set", "factors.rate=[100]", "--set", "validity={lateness: 1s, rateShortfall: 1, generatorCPU: 1, errorRatio: 1}"}
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		programtest.Missing(t, errors.New("it changes the root directory"), "it as root")
	}
}

// The deb is installed into an empty root. There an ordinary user runs the quickstart with the reference proxy, in which
// nothing but the package is needed.
func TestPackageRuns(t *testing.T) {
	r := built(t)
	requireRoot(t)
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		must.OK(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must.OK(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
	run(t, exec.Command("dpkg", "--root="+root, "--install", filepath.Join(r.dir, "tare_0.0.9_"+runtime.GOARCH+".deb")))
	devices(t, root)
	for _, name := range []string{"tare", "kubectl-tare"} {
		if got := run(t, inside(root, nil, "/usr/bin/"+name, "--version")); got != "tare "+version+"\n" {
			t.Errorf("%s --version: %s", name, got)
		}
	}
	report := run(t, inside(root, nil, quickstart("reference")...))
	must.Contain(t, report, "CPU/request, total", "/tmp/results/report.html")
	must.Contain(t, run(t, exec.Command("dpkg", "--root="+root, "--remove", "tare")), "Removing tare")
	for _, name := range []string{"bin/tare", "bin/kubectl-tare", "share/doc/tare"} {
		if _, err := os.Lstat(filepath.Join(root, "usr", name)); err == nil {
			t.Errorf("the removed package left /usr/%s", name)
		}
	}
}

// The deb is installed into a new Debian. There an ordinary user runs the quickstart with Envoy.
func TestPackageOnDebian(t *testing.T) {
	r := built(t)
	requireRoot(t)
	debootstrap := cached(t, "usr/sbin/debootstrap")
	envoy := must.Get(fetch.Envoy().Find(t.Context(), fetch.Options{}))(t)
	root := filepath.Join(t.TempDir(), "debian")
	bootstrap := exec.Command(debootstrap, "--variant=minbase", "bookworm", root, "http://deb.debian.org/debian")
	bootstrap.Env = append(os.Environ(), "DEBOOTSTRAP_DIR="+cached(t, "usr/share/debootstrap"))
	run(t, bootstrap)
	for from, to := range map[string]string{filepath.Join(r.dir, "tare_0.0.9_"+runtime.GOARCH+".deb"): "tare.deb", envoy.Path: "envoy"} {
		run(t, exec.Command("cp", "--dereference", from, filepath.Join(root, to)))
	}
	run(t, exec.Command("chroot", root, "dpkg", "--install", "/tare.deb"))
	devices(t, root)
	report := run(t, inside(root, []string{"TARE_ENVOY=/envoy"}, quickstart("envoy")...))
	must.Contain(t, report, "envoy against no mesh", "CPU/request, data plane")
	t.Log(report)
}
