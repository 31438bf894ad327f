package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
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

// program is one that tare hands commands over to.
type program struct {
	name    string
	env     string // variable that overrides where it is searched
	install string // hint how to get it
}

var (
	kubeProgram = program{"tare-kube", "TARE_KUBE",
		"build it with `make build-kube`, or run `go install github.com/tare-mesh/tare/cmd/tare-kube@latest`, or set TARE_KUBE to its path"}
	plotProgram = program{"tare-plot", "TARE_PLOT",
		"build it with `make build-plot`, or run `go install github.com/tare-mesh/tare/cmd/tare-plot@latest`, or set TARE_PLOT to its path"}
	pushProgram = program{"tare-push", "TARE_PUSH",
		"build it with `make build-push`, or run `go install github.com/tare-mesh/tare/cmd/tare-push@latest`, or set TARE_PUSH to its path"}
	// The next two do one task for tare, and do not replace it.
	grpcProgram = program{"tare-grpc", "TARE_GRPC",
		"build it with `make build-grpc`, or run `go install github.com/tare-mesh/tare/cmd/tare-grpc@latest`, or set TARE_GRPC to its path"}
	http3Program = program{"tare-http3", "TARE_HTTP3",
		"build it with `make build-http3`, or run `go install github.com/tare-mesh/tare/cmd/tare-http3@latest`, or set TARE_HTTP3 to its path"}
)

// handOver replaces this process with another program of tare.
type handOver struct {
	args []string // of this process, without the program's name
	exec func(path string, argv, env []string) error
}

func newHandOver() handOver { return handOver{exec: syscall.Exec} }

// to runs p with args in place of this process. It returns only if that fails.
func (h handOver) to(p program, args []string) error {
	path, err := p.find()
	if err != nil {
		return err
	}
	// A variable given twice has its first value.
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, envVersion+"=") || strings.HasPrefix(s, envRole+"=")
	})
	env = append(env, envVersion+"="+console.Version(), envRole+"="+p.name)
	name := path
	if filepath.Base(os.Args[0]) == plugin {
		name = plugin
	}
	if err := h.exec(path, append([]string{name}, args...), env); err != nil {
		return hint.New(p.install, "start %s: %w", path, err)
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
	for _, p := range []program{kubeProgram, plotProgram, pushProgram} {
		if p.name == meant && role != meant {
			return hint.New("unset "+p.env+", or set it to the path of "+p.name, "%s is %s, not %s", self, role, p.name)
		}
	}
	if v := console.Version(); v != by {
		return hint.New("`make build-kube build-plot build-push` builds the programs from the same source", "version mismatch: tare is %s, %s is %s", by, self, v)
	}
	return nil
}

// find looks where the program's variable points, beside this program, and in PATH, and builds it if `go install` built
// this one.
func (p program) find() (string, error) {
	if path := os.Getenv(p.env); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", hint.New(p.install, "%s: %w", p.env, err)
		}
		return found, nil
	}
	note := func(line string) { fmt.Fprintln(os.Stderr, "tare: "+line) }
	if err := companion.Install(context.Background(), p.name, note); err != nil {
		return "", err
	}
	found, err := exec.LookPath(companion.Path(p.name))
	if err != nil {
		return "", hint.New(p.install, "this needs %s, which is neither beside tare nor in PATH", p.name)
	}
	return found, nil
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
			fmt.Fprintf(c.Out, "%s.\n\ntare %s is part of %s: %s.\n", cmd.Short, name, kubeProgram.name, hint.Of(err))
		}
	})
	return cmd
}
