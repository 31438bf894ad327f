package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/companion"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/series"
)

// Kubernetes is everything that needs large libraries: of Kubernetes, for figures in files, for databases. cmd/tare-kube
// passes it in, but cmd/tare has none.
type Kubernetes struct {
	*session.Kubernetes
	// Commands by name, without their summaries, which the list of commands has.
	Commands map[string]func(*CommandLine) *cobra.Command

	// DryRun writes the manifests and commands of one trial of each treatment.
	DryRun func(ctx context.Context, s *session.Study, results string, to io.Writer) error
	// Examine checks the cluster of an experiment.
	Examine func(context.Context, *session.Study) []health.Row

	// Sidecars reads the sidecars that run in a namespace, with requests/s counted for a time; 0: without.
	Sidecars func(ctx context.Context, namespace string, window time.Duration) (predict.Sidecars, error)

	// Draw writes a figure of a page's data as SVG.
	Draw func(w io.Writer, data []byte, d page.Drawing) error
	// Push sends time series to a database.
	Push func(ctx context.Context, to *series.Target, all []series.Series) error
}

// kubernetesCommand returns a command that tare hands over to tare-kube: there the command itself, and elsewhere a stub.
func kubernetesCommand(name, short string) func(*CommandLine) *cobra.Command {
	return func(c *CommandLine) *cobra.Command {
		cmd := c.newStub(name)
		if c.kubernetes != nil && c.kubernetes.Commands[name] != nil {
			cmd = c.kubernetes.Commands[name](c)
		}
		cmd.Short = short
		return cmd
	}
}

// tare has no large library: the Kubernetes libraries alone take nine tenths of the time to build tare-kube.
// A command that needs one is handed over to tare-kube, which replaces this process (execve):
// same arguments, environment, streams and process ID. Exit status and signals need no forwarding.

// envVersion carries the version of tare to tare-kube, which must be of the same.
const envVersion = "TARE_HANDED_OVER_BY"

// handOver replaces this process with tare-kube.
type handOver struct {
	args []string // of this process, without the program's name
	exec func(path string, argv, env []string) error
}

func newHandOver() handOver { return handOver{exec: syscall.Exec} }

// checkVersion is called first thing: a process that took over a command must be tare-kube, of tare's version.
func (handOver) checkVersion(isKube bool) error {
	by := os.Getenv(envVersion)
	if by == "" {
		return nil
	}
	_ = os.Unsetenv(envVersion) // children start afresh
	self, _ := os.Executable()
	if !isKube {
		return hint.New("unset "+companion.Kube.Env+", or set it to the path of "+companion.Kube.Name, "%s is tare, not %s", self, companion.Kube.Name)
	}
	if v := console.Version(); v != by {
		return hint.New("`make build-kube` builds both programs from the same source", "version mismatch: tare is %s, %s is %s", by, self, v)
	}
	return nil
}

// newStub is the placeholder in tare of a command of tare-kube. It keeps help and completion of both programs the same.
func (c *CommandLine) newStub(name string) *cobra.Command {
	cmd := &cobra.Command{
		Use:                name,
		DisableFlagParsing: true, // the flags belong to tare-kube
		RunE:               func(*cobra.Command, []string) error { return c.handOver.run(c.handOver.args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			_ = c.handOver.run(c.handOver.args) // without tare-kube there are no completions
			return nil, cobra.ShellCompDirectiveError
		},
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		if err := c.handOver.run([]string{name, "--help"}); err != nil {
			fmt.Fprintf(c.Out, "%s.\n\ntare %s is part of %s: %s.\n", cmd.Short, name, companion.Kube.Name, hint.Of(err))
		}
	})
	return cmd
}

// run runs tare-kube with args in place of this process. It returns only if that fails.
func (h handOver) run(args []string) error {
	path, err := companion.Kube.Find()
	if err != nil {
		return err
	}
	// A variable given twice has its first value.
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, envVersion+"=") })
	env = append(env, envVersion+"="+console.Version())
	name := path
	if filepath.Base(os.Args[0]) == plugin {
		name = plugin
	}
	if err := h.exec(path, append([]string{name}, args...), env); err != nil {
		return hint.New(companion.Kube.Install, "start %s: %w", path, err)
	}
	return nil
}
