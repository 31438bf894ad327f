package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/companion"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
)

// tare has neither the Kubernetes libraries, nine tenths of the time to build it, nor a JavaScript engine.
// A command that needs them is handed over to a program that has them and replaces this process (execve):
// same arguments, environment, streams and process ID. Exit status and signals need no forwarding.
const (
	// envVersion carries the version of tare to the other program, which must be of the same.
	envVersion = "TARE_HANDED_OVER_BY"
	// envRole carries the name of the program that tare meant to start.
	envRole = "TARE_HANDED_OVER_TO"
)

// The programs that tare hands commands over to, and http3Program, which does one task for tare and does not replace it.
var (
	kubeProgram  = companion.New("kube")
	plotProgram  = companion.New("plot")
	pushProgram  = companion.New("push")
	http3Program = companion.New("http3")
)

// handOver replaces this process with another program of tare.
type handOver struct {
	args []string // of this process, without the program's name
	exec func(path string, argv, env []string) error
}

func newHandOver() handOver { return handOver{exec: syscall.Exec} }

// to runs p with args in place of this process. It returns only if that fails.
func (h handOver) to(p companion.Program, args []string) error {
	path, err := p.Find()
	if err != nil {
		return err
	}
	// A variable given twice has its first value.
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, envVersion+"=") || strings.HasPrefix(s, envRole+"=")
	})
	env = append(env, envVersion+"="+console.Version(), envRole+"="+p.Name)
	name := path
	if filepath.Base(os.Args[0]) == plugin {
		name = plugin
	}
	if err := h.exec(path, append([]string{name}, args...), env); err != nil {
		return hint.New(p.Install, "start %s: %w", path, err)
	}
	return nil
}

// checkVersion is called first thing: a process that took over a command must be the program that
// tare meant, of tare's version.
func (handOver) checkVersion(role string) error {
	by := os.Getenv(envVersion)
	if by == "" {
		return nil
	}
	meant := os.Getenv(envRole)
	_, _ = os.Unsetenv(envVersion), os.Unsetenv(envRole) // children start afresh
	self, _ := os.Executable()
	for _, p := range []companion.Program{kubeProgram, plotProgram, pushProgram} {
		if p.Name == meant && role != meant {
			return hint.New("unset "+p.Env+", or set it to the path of "+p.Name, "%s is %s, not %s", self, role, p.Name)
		}
	}
	if v := console.Version(); v != by {
		return hint.New("`make build-kube build-plot build-push` builds the programs from the same source", "version mismatch: tare is %s, %s is %s", by, self, v)
	}
	return nil
}

// newStub is the placeholder in tare of a command of tare-kube. It keeps help and completion of both programs the same.
func (c *CommandLine) newStub(name string) *cobra.Command {
	cmd := &cobra.Command{
		Use:                name,
		DisableFlagParsing: true, // the flags belong to tare-kube
		RunE:               func(*cobra.Command, []string) error { return c.handOver.to(kubeProgram, c.handOver.args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			_ = c.handOver.to(kubeProgram, c.handOver.args) // without tare-kube there are no completions
			return nil, cobra.ShellCompDirectiveError
		},
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		if err := c.handOver.to(kubeProgram, []string{name, "--help"}); err != nil {
			fmt.Fprintf(c.Out, "%s.\n\ntare %s is part of %s: %s.\n", cmd.Short, name, kubeProgram.Name, hint.Of(err))
		}
	})
	return cmd
}
