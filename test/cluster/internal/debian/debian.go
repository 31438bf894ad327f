// Package debian sees to the programs that come from the distribution.
package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/wait"
)

// needed maps a required file to the package that contains it.
var needed = []struct{ file, from string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"nft", "nftables"},
	{"busybox", "busybox-static"},
}

// Plugins is where the distribution keeps the CNI plug-ins.
const Plugins = "/usr/lib/cni"

// Missing lists the packages that are not installed.
func Missing() []string {
	var missing []string
	seen := map[string]bool{}
	for _, n := range needed {
		if !seen[n.from] && !there(n.file) {
			seen[n.from] = true
			missing = append(missing, n.from)
		}
	}
	return missing
}

func there(file string) bool {
	if filepath.IsAbs(file) {
		_, err := os.Stat(file)
		return err == nil
	}
	_, err := exec.LookPath(file)
	return err == nil
}

// ErrMissing is wrapped by errors that name packages to install.
var ErrMissing = errors.New("missing on this machine")

// packages is the directory of dpkg. Its lock excludes other installations by this package.
var packages = "/var/lib/dpkg"

// Install installs missing packages, as root and with apt-get. Otherwise the error names the packages to
// install. Of several processes one installs: apt-get waits for no other that updates its lists.
func Install(ctx context.Context, log io.Writer) error {
	if len(Missing()) == 0 {
		return nil
	}
	advice := func() error {
		return fmt.Errorf("%w: %s (sudo apt-get install --no-install-recommends %[2]s)", ErrMissing, strings.Join(Missing(), " "))
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return advice()
	}
	unlock, err := lock(ctx, packages)
	if err != nil {
		return fmt.Errorf("%w; %w", err, advice())
	}
	defer unlock()
	missing := Missing()
	if len(missing) == 0 { // another process has installed them
		return nil
	}
	get := func(arguments ...string) error {
		run := exec.CommandContext(ctx, "apt-get", append(arguments, "-qq", "-o", "DPkg::Lock::Timeout=300")...)
		run.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		run.Stdout, run.Stderr = log, log
		run.Cancel = func() error { return run.Process.Signal(os.Interrupt) } // apt-get lets dpkg finish
		run.WaitDelay = 5 * time.Minute
		if err := run.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", arguments[0], err)
		}
		return nil
	}
	outdated := get("update")
	if err := get(append([]string{"install", "-y", "--no-install-recommends"}, missing...)...); err != nil {
		return fmt.Errorf("%w; %w", errors.Join(outdated, err), advice())
	}
	return nil
}

// lock waits for the advisory lock of a directory, which ends with this process.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the packages: %w", err)
	}
	err = wait.Until(ctx, 200*time.Millisecond, func(context.Context) error {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return err
		}
		return wait.Stop(fmt.Errorf("lock %s: %w", dir, err))
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for another installation of packages: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
