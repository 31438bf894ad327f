// Tare-cluster brings up a real Kubernetes for tests and for developers, and takes it down whole.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	cluster "github.com/tare-mesh/tare/test/cluster"
	"github.com/tare-mesh/tare/test/cluster/internal/debian"
	"github.com/tare-mesh/tare/test/cluster/internal/parts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	err := command().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	var ended commandEnded
	if errors.As(err, &ended) && ended.ExitCode() > 0 {
		os.Exit(ended.ExitCode()) // it printed the reason
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	os.Exit(1)
}

// place holds the flags of every command: the cluster's name and the directory of its state.
type place struct {
	name, root string
	with       []string // meshes
	cadvisor   bool
	nodes      int
	node       string // whose daemon gets a signal
	shares     int
}

func (p *place) layout() (cluster.Layout, error) { return cluster.New(p.root, p.name) }

// up returns the layout of a cluster that is up.
func (p *place) up() (cluster.Layout, error) {
	l, err := p.layout()
	if err != nil {
		return l, err
	}
	l, found, err := l.Load()
	if err == nil && !(found && l.IsUp()) {
		err = fmt.Errorf("cluster %s is not up", p.name)
	}
	return l, err
}

func command() *cobra.Command {
	p := &place{}
	root := &cobra.Command{
		Use:           "tare-cluster",
		Short:         "A real Kubernetes on this machine, for tests",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&p.name, "name", cmp.Or(os.Getenv(cluster.NameVariable), "dev"),
		"name of the cluster, of which several can be up at a time; or "+cluster.NameVariable)
	root.PersistentFlags().StringVar(&p.root, "root", os.Getenv(cluster.RootVariable),
		"directory of cache and state, if not tare/cluster in the user's cache; or "+cluster.RootVariable)
	root.PersistentFlags().BoolVar(&p.cadvisor, "cadvisor", os.Getenv(cluster.CAdvisorVariable) != "",
		"when the cluster is brought up: containers are known to cAdvisor, and their counters refreshed every 10 to 20 s; or "+cluster.CAdvisorVariable)
	root.PersistentFlags().IntVar(&p.shares, "cpu-shares", 0,
		"when the cluster is brought up: its CPU weight beside other programs, of which a thread has 1024 (default 1024 for each CPU of its nodes)")
	starts := []*cobra.Command{up(p), run(p)}
	for _, c := range append(starts, build(p)) {
		c.Flags().StringSliceVar(&p.with, "with", nil, "meshes whose images and charts are wanted too: "+strings.Join(meshes(), ", "))
		root.AddCommand(c)
	}
	for _, c := range starts {
		c.Flags().IntVar(&p.nodes, "nodes", 0, "nodes of the cluster, at most "+strconv.Itoa(cluster.MaxNodes)+" (default 1)")
	}
	root.AddCommand(down(p), status(p), env(p), kubeconfig(p), loadImage(p), send(p), kill(p), inside())
	return root
}

// on is a command that works on a layout.
func on(layout func() (cluster.Layout, error), use, short string, args cobra.PositionalArgs, run func(ctx context.Context, l cluster.Layout, arguments []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(c *cobra.Command, arguments []string) error {
		l, err := layout()
		if err != nil {
			return err
		}
		return run(c.Context(), l, arguments)
	}}
}

func up(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "bring the cluster up, building missing programs first, and print its KUBECONFIG",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := bringUp(c.Context(), p, false)
			if err == nil {
				fmt.Println(exported("KUBECONFIG=" + l.Kubeconfig()))
			}
			return err
		},
	}
}

func bringUp(ctx context.Context, p *place, owned bool) (cluster.Layout, error) {
	l, err := p.layout()
	if err != nil {
		return l, err
	}
	source, err := parts.Find(".")
	if err != nil {
		return l, err
	}
	if err := p.known(); err != nil {
		return l, err
	}
	if p.shares != 0 && p.shares < 2 || p.shares > 262144 { // the kernel's bounds
		return l, fmt.Errorf("--cpu-shares %d: not from 2 to 262144", p.shares)
	}
	if l, err = cluster.Up(ctx, l, cluster.Options{Source: source, Owned: owned, CAdvisor: p.cadvisor, Nodes: p.nodes, CPUShares: p.shares, Log: os.Stderr}); err != nil {
		return l, err
	}
	for _, name := range p.with {
		if l, err = addable[name].add(ctx, l); err != nil {
			return l, errors.Join(err, p.abandon(ctx, l))
		}
	}
	return l, nil
}

// abandon takes down a cluster that belongs to this process.
func (p *place) abandon(ctx context.Context, l cluster.Layout) error {
	if l.Owner.PID != os.Getpid() {
		return nil
	}
	return cluster.Down(context.WithoutCancel(ctx), l)
}

func down(p *place) *cobra.Command {
	return on(p.layout, "down", "take the cluster down whole, whatever state it is in", cobra.NoArgs, func(ctx context.Context, l cluster.Layout, _ []string) error {
		return cluster.Down(ctx, l)
	})
}

func build(p *place) *cobra.Command {
	return on(p.layout, "build", "build the cluster's programs, and the meshes', into the cache, and print where they are", cobra.NoArgs, func(ctx context.Context, l cluster.Layout, _ []string) error {
		source, err := parts.Find(".")
		if err != nil {
			return err
		}
		if err := p.known(); err != nil {
			return err
		}
		dir, err := cluster.Build(ctx, l, source, os.Stderr)
		if err != nil {
			return err
		}
		fmt.Println(dir)
		for _, name := range p.with {
			if dir, err = addable[name].build(ctx, l); err != nil {
				return err
			}
			fmt.Println(dir)
		}
		return nil
	})
}

// run ends with the command's exit code. Where the machine cannot hold a cluster, outside continuous integration, the
// command runs without one: tests that need it are then skipped.
func run(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "run -- COMMAND [ARGUMENT]…",
		Short: "bring a cluster up, run a command with it, and take it down in any case",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, command []string) (err error) {
			l, err := bringUp(c.Context(), p, true)
			var failed *exec.ExitError
			if errors.As(err, &failed) && c.Context().Err() == nil {
				// Seen once in a start of five clusters on two processors.
				fmt.Fprintf(os.Stderr, "cluster: %v\ncluster: starting it once more\n", err)
				l, err = bringUp(c.Context(), p, true)
			}
			if errors.Is(err, cluster.ErrUnsupported) {
				return withoutCluster(c.Context(), command, p.nodes, err)
			}
			if err != nil {
				return err
			}
			if l.Owner.PID != os.Getpid() {
				return fmt.Errorf("cluster %s is up already, and not for this command; take it down, or choose another --name", p.name)
			}
			defer func() { err = errors.Join(err, takeDown(context.WithoutCancel(c.Context()), l)) }()
			before, err := cluster.Objects(c.Context(), l)
			if err != nil {
				return err
			}
			err = execute(c.Context(), command, l.Environment(program()))
			if err == nil { // a command that failed may not have cleaned up
				err = cluster.Left(c.Context(), l, before)
			}
			return err
		},
	}
}

// withoutCluster runs the command on a machine that cannot hold the cluster, and then prints what was not tested. In
// continuous integration it returns the reason.
func withoutCluster(ctx context.Context, command []string, nodes int, reason error) error {
	if os.Getenv("CI") == "true" {
		return reason
	}
	err := execute(ctx, command, cluster.WithoutNodes(reason))
	untested := "a cluster was"
	if nodes > 1 {
		untested = fmt.Sprintf("%d nodes were", nodes)
	}
	fmt.Fprintf(os.Stderr, "cluster: %s NOT TESTED: %v\n", untested, reason)
	return err
}

// takeDown takes the cluster down, and sees that nothing of it is left on this machine.
func takeDown(ctx context.Context, l cluster.Layout) error {
	begun := time.Now()
	spaces, err := cluster.ReadSpaces(l)
	if err != nil {
		return errors.Join(err, cluster.Down(ctx, l))
	}
	if err := cluster.Down(ctx, l); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "cluster: down in %.1fs\n", time.Since(begun).Seconds())
	return cluster.Remains(ctx, l, spaces)
}

// commandEnded is the end of the command that run started, unlike the end of a program of the cluster.
type commandEnded struct{ *exec.ExitError }

// execute runs a command and, at an interrupt, lets it end by itself for half a minute.
func execute(ctx context.Context, command, environment []string) error {
	run := exec.CommandContext(ctx, command[0], command[1:]...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	run.Env = append(os.Environ(), environment...)
	run.Cancel = func() error { return run.Process.Signal(unix.SIGINT) }
	run.WaitDelay = 30 * time.Second
	err := run.Run()
	if ended, ok := err.(*exec.ExitError); ok {
		return commandEnded{ended}
	}
	return err
}

// program is the path of this program. Tests call it to stop the API server, for one.
func program() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

func status(p *place) *cobra.Command {
	return on(p.layout, "status", "print the cluster's addresses, paths and processes", cobra.NoArgs, func(ctx context.Context, l cluster.Layout, _ []string) error {
		lines, err := cluster.Status(ctx, l)
		if err != nil {
			return err
		}
		fmt.Println(strings.Join(lines, "\n"))
		if missing := debian.Missing(); len(missing) > 0 {
			fmt.Println("packages missing: " + strings.Join(missing, " "))
		}
		return nil
	})
}

func env(p *place) *cobra.Command {
	return on(p.up, "env", "print the variables by which tests find the cluster", cobra.NoArgs, func(_ context.Context, l cluster.Layout, _ []string) error {
		for _, variable := range l.Environment(program()) {
			fmt.Println(exported(variable))
		}
		return nil
	})
}

// exported is the command of a shell that sets a variable, whatever its value has.
func exported(variable string) string {
	name, value, _ := strings.Cut(variable, "=")
	if strings.ContainsFunc(value, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-:,@+=", r)
	}) {
		value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return "export " + name + "=" + value
}

func kubeconfig(p *place) *cobra.Command {
	return on(p.up, "kubeconfig", "print the path of the kubeconfig", cobra.NoArgs, func(_ context.Context, l cluster.Layout, _ []string) error {
		fmt.Println(l.Kubeconfig())
		return nil
	})
}

func loadImage(p *place) *cobra.Command {
	return on(p.up, "load-image FILE…", "import image archives (Docker's or OCI's format) and print the images' names", cobra.MinimumNArgs(1), func(ctx context.Context, l cluster.Layout, files []string) error {
		for _, file := range files {
			path, err := filepath.Abs(file)
			if err != nil {
				return fmt.Errorf("find image archive: %w", err)
			}
			names, err := l.LoadImage(ctx, path)
			if err != nil {
				return err
			}
			fmt.Println(strings.Join(names, "\n"))
		}
		return nil
	})
}

func send(p *place) *cobra.Command {
	c := on(p.up, "signal DAEMON stop|cont|term|kill", "send one of the cluster's daemons a signal", cobra.ExactArgs(2), func(_ context.Context, l cluster.Layout, arguments []string) error {
		return l.Signal(p.node, arguments[0], arguments[1])
	})
	c.Long = "Sends one of the cluster's daemons a signal. A daemon that ends is not started again.\n\nDaemons: " + strings.Join(cluster.Daemons(), ", ")
	c.ValidArgs = cluster.Daemons()
	c.Flags().StringVar(&p.node, "node", cluster.Node, "node of the daemon")
	return c
}

func kill(p *place) *cobra.Command {
	return on(p.up, "kill NODE", "end all processes of a node at once; it does not come back", cobra.ExactArgs(1), func(_ context.Context, l cluster.Layout, arguments []string) error {
		return l.Kill(arguments[0])
	})
}

func inside() *cobra.Command {
	return &cobra.Command{
		Use: cluster.InsideCommand, Short: "be the first process inside a cluster", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return cluster.Inside(os.Stdin) },
	}
}
