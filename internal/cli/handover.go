package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// tare has no Kubernetes libraries: they are nine tenths of the time to build it. A command that needs
// them is handed over to tare-kube, which replaces this process (execve): same arguments,
// environment, streams and process ID. Exit status and signals need no forwarding.
const (
	kubeProgram = "tare-kube"
	// envProgram overrides where tare-kube is searched.
	envProgram = "TARE_KUBE"
	// envVersion carries the version of tare to tare-kube, which must be of the same.
	envVersion = "TARE_HANDED_OVER_BY"
)

// installHint is how to get tare-kube.
const installHint = "build it with `make build-kube`, or run `go install github.com/tare-mesh/tare/cmd/tare-kube@latest`, or set " + envProgram + " to its path"

// handOver replaces this process with tare-kube.
type handOver struct {
	args []string // of this process, without the program's name
	exec func(path string, argv, env []string) error
}

func newHandOver() handOver { return handOver{exec: syscall.Exec} }

// to runs tare-kube with args in place of this process. It returns only if that fails.
func (h handOver) to(args []string) error {
	path, err := findKubeProgram()
	if err != nil {
		return err
	}
	env := append(os.Environ(), envVersion+"="+Version())
	if err := h.exec(path, append([]string{path}, args...), env); err != nil {
		return hint.New(installHint, "start %s: %w", path, err)
	}
	return nil
}

// checkVersion is called first thing: a process that took over a command must be tare-kube of tare's version.
func (handOver) checkVersion(hasKubernetes bool) error {
	by, ok := os.LookupEnv(envVersion)
	if !ok {
		return nil
	}
	_ = os.Unsetenv(envVersion) // children start afresh
	self, _ := os.Executable()
	if !hasKubernetes {
		return hint.New("unset "+envProgram+", or set it to the path of "+kubeProgram, "%s is tare, not %s", self, kubeProgram)
	}
	if v := Version(); v != by {
		return hint.New("`make build-kube` builds both programs from the same source", "version mismatch: tare is %s, %s is %s", by, self, v)
	}
	return nil
}

// findKubeProgram looks where TARE_KUBE points, beside this program, and in PATH.
func findKubeProgram() (string, error) {
	if path := os.Getenv(envProgram); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", hint.New(installHint, "%s: %w", envProgram, err)
		}
		return found, nil
	}
	if self, err := os.Executable(); err == nil {
		if found, err := exec.LookPath(filepath.Join(filepath.Dir(self), kubeProgram)); err == nil {
			return found, nil
		}
	}
	found, err := exec.LookPath(kubeProgram)
	if err != nil {
		return "", hint.New(installHint, "this needs %s, which is neither beside tare nor in PATH", kubeProgram)
	}
	return found, nil
}

// newStub is the placeholder in tare of a command of tare-kube. It keeps help and completion of both programs the same.
func (c *CommandLine) newStub(name string) *cobra.Command {
	cmd := &cobra.Command{
		Use:                name,
		DisableFlagParsing: true, // the flags belong to tare-kube
		RunE:               func(*cobra.Command, []string) error { return c.handOver.to(c.handOver.args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			_ = c.handOver.to(c.handOver.args) // without tare-kube there are no completions
			return nil, cobra.ShellCompDirectiveError
		},
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		if err := c.handOver.to([]string{name, "--help"}); err != nil {
			fmt.Fprintf(c.Out, "%s.\n\ntare %s is part of %s: %s.\n", cmd.Short, name, kubeProgram, hint.Of(err))
		}
	})
	return cmd
}
