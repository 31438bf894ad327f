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

// Install installs missing packages, as root and with apt-get. Otherwise the error names the packages to
// install.
func Install(ctx context.Context, log io.Writer) error {
	missing := Missing()
	if len(missing) == 0 {
		return nil
	}
	advice := fmt.Errorf("%w: %s (sudo apt-get install --no-install-recommends %[2]s)", ErrMissing, strings.Join(missing, " "))
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return advice
	}
	steps := [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)}
	for _, arguments := range steps {
		run := exec.CommandContext(ctx, "apt-get", arguments...)
		run.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		run.Stdout, run.Stderr = log, log
		if err := run.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w; %w", arguments[0], err, advice)
		}
	}
	return nil
}
