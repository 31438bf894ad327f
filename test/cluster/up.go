package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/test/cluster/internal/cgroup"
	"github.com/tare-mesh/tare/test/cluster/internal/debian"
	"github.com/tare-mesh/tare/test/cluster/internal/parts"
)

// ErrUnsupported is wrapped by errors with the reason why this machine cannot hold a cluster.
var ErrUnsupported = errors.New("this machine cannot hold a cluster")

// ErrOneNode is an [ErrUnsupported] of clusters with several nodes, on a machine that can hold one.
var ErrOneNode = fmt.Errorf("%w of several nodes", ErrUnsupported)

// sharesOfCPU is the CPU weight of one thread outside all control groups.
const sharesOfCPU = 1024

// Options of bringing a cluster up.
type Options struct {
	Source parts.Source
	Owned  bool // it belongs to this process: once that has died, it is a leftover
	// CAdvisor is [Layout.CAdvisor], Nodes is [Layout.Nodes].
	CAdvisor bool
	Nodes    int
	// CPUShares is [Layout.CPUShares]. 0 means 1024 for each CPU of its nodes.
	CPUShares int
	Log       io.Writer // progress and the output of builds
}

// Up brings the cluster up, building first what the cache lacks, and waits until it is ready for tests. If it is
// up already it is left as it is. What an Up that fails or is interrupted has begun is taken down again.
func Up(ctx context.Context, l Layout, o Options) (Layout, error) {
	if os.Geteuid() != 0 {
		return l, fmt.Errorf("%w: it takes root", ErrUnsupported)
	}
	unlock, err := l.lock()
	if err != nil {
		return l, err
	}
	defer unlock()
	if there, up, err := l.alive(); err != nil || up {
		if has := max(1, there.Nodes); up && o.Nodes > 0 && has != o.Nodes {
			return there, fmt.Errorf("cluster %s is up with %d nodes, not %d; take it down first", l.Name, has, o.Nodes)
		}
		return there, err
	}
	if err := l.down(ctx); err != nil {
		return l, fmt.Errorf("clear what an earlier cluster left: %w", err)
	}
	progress := newProgress(o.Log)
	if l, err = (start{l, o}).prepare(ctx); err != nil {
		return l, err
	}
	if l, err = (start{l, o}).bringUp(ctx, progress); err != nil {
		why := l.lastWords()
		if full := checkInotify(l.inotifyInstances() / 2); full != nil { // several clusters started at once
			why = "\n" + full.Error() + why
		}
		err = errors.Join(err, l.down(context.WithoutCancel(ctx)))
		return l, fmt.Errorf("bring up cluster %s: %w%s", l.Name, err, why)
	}
	return l, nil
}

// alive reports a cluster that is ready, has its first process and has not lost its owner.
func (l Layout) alive() (Layout, bool, error) {
	there, found, err := l.Load()
	if err != nil || !found {
		return l, false, err
	}
	up := there.Ready && there.running() && !there.Owner.dead()
	if !up {
		return l, false, nil
	}
	return there, true, nil
}

// start brings one cluster up. Its methods return the layout with what they have added.
type start struct {
	Layout
	Options
}

// prepare installs packages and builds programs, which takes minutes the first time.
func (s start) prepare(ctx context.Context) (Layout, error) {
	l, o := s.Layout, s.Options
	if err := outside(l.Root, hidden); err != nil {
		return l, err
	}
	if o.Nodes < 0 || o.Nodes > MaxNodes {
		return l, fmt.Errorf("%d nodes: not between 1 and %d", o.Nodes, MaxNodes)
	}
	if l.Nodes = o.Nodes; l.several() && !cgroup.Version1() {
		return l, fmt.Errorf("%w: control groups of version 2 alone", ErrOneNode)
	}
	if err := debian.Install(ctx, o.Log); err != nil {
		return l, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if _, err := os.Stat(bridgeRules); err != nil {
		if _, err := output(exec.CommandContext(ctx, "modprobe", "br_netfilter")); err != nil {
			return l, fmt.Errorf("%w: no bridge netfilter: %w", ErrUnsupported, err)
		}
	}
	if err := (link{l}).checkForwarding(ctx); err != nil {
		return l, err
	}
	var err error
	if l.Parts, err = Build(ctx, l, o.Source, o.Log); err != nil {
		return l, err
	}
	l.Sandbox = o.Source.Image("pause")
	l.CAdvisor = o.CAdvisor
	l.CPUShares = cmp.Or(o.CPUShares, sharesOfCPU*runtime.NumCPU()*len(l.nodes()))
	return l, nil
}

// Build sees to it that the cache holds the cluster's programs, and returns the directory they are in.
func Build(ctx context.Context, l Layout, source parts.Source, log io.Writer) (string, error) {
	built, err := source.Cached(l.Root)
	if err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, filepath.Join(l.Root, "build.lock"), true)
	if err != nil {
		return "", err
	}
	defer unlock()
	if built.Has() {
		return built.Dir, nil
	}
	report := newProgress(log)
	report("building Kubernetes %s into %s: 12 to 18 minutes of processor time", source.Kubernetes(), built.Dir)
	if err := source.Build(ctx, built, log); err != nil {
		return "", err
	}
	report("built")
	return built.Dir, nil
}

// outside refuses a root that the cluster could not see.
func outside(root string, dirs []string) error {
	for _, dir := range dirs {
		if strings.HasPrefix(root+"/", dir+"/") {
			return fmt.Errorf("root %s: the cluster sees a %s of its own; choose another root", root, dir)
		}
	}
	return nil
}

func (s start) bringUp(ctx context.Context, report progress) (Layout, error) {
	l, o := s.Layout, s.Options
	l.Started = time.Now().UTC()
	if o.Owned {
		l.Owner = self()
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	l, err := (start{l, o}).begin(ctx, fail)
	if err != nil {
		return l, err
	}
	report("namespaces, interface %s, %d nodes from %s", l.Interface(), len(l.nodes()), l.Network.Node)
	both, shared := errgroup.WithContext(ctx)
	both.Go(func() error { return store{l}.importImages(shared, report) })
	both.Go(func() error { return api{l}.installAddons(shared, report) })
	if err := both.Wait(); err != nil {
		return l, err
	}
	if err := (api{l}).awaitReady(ctx, report); err != nil {
		return l, err
	}
	l.Ready = true
	return l, l.save()
}

// begin raises the limit of inotify instances, chooses the network, writes the configuration and starts the first process. The
// machine's networks are locked meanwhile, so that two clusters do not choose the same.
func (s start) begin(ctx context.Context, ended func(error)) (Layout, error) {
	l := s.Layout
	if err := os.MkdirAll(l.Dir(), 0o700); err != nil {
		return l, fmt.Errorf("make the cluster's directory: %w", err)
	}
	if err := errors.Join(os.RemoveAll(l.Logs()), os.MkdirAll(l.Logs(), 0o700)); err != nil {
		return l, fmt.Errorf("make the directory for logs: %w", err)
	}
	unlock, err := l.lockNetwork(ctx)
	if err != nil {
		return l, err
	}
	defer unlock()
	if err := l.inotifySetting().raise(); err != nil {
		return l, err
	}
	if err := checkInotify(l.inotifyInstances()); err != nil {
		return l, err
	}
	if l.Network, err = chooseNetwork(); err != nil {
		return l, err
	}
	if err := errors.Join(l.save(), configuration{l}.configure(s.Source)); err != nil {
		return l, err
	}
	if err := (link{l}).create(); err != nil {
		return l, err
	}
	for _, n := range l.nodes() {
		pid, err := n.startInside(ended)
		if err != nil {
			return l, fmt.Errorf("start the first process of %s: %w", n.name(), err)
		}
		if n.first() {
			l.Init = pid
		} else {
			l.Workers = append(l.Workers, pid)
		}
		if err := l.save(); err != nil {
			return l, err
		}
	}
	return l, nil
}

// startInside starts a node's first process in new namespaces, puts it into its control group, links it to
// the network, and only then lets it go on. Until then it does nothing, and ends when this process does. Later it
// outlives this process. If it ends before, ended is called.
func (n node) startInside(ended func(error)) (int, error) {
	cluster, err := n.cgroup()
	if err != nil {
		return 0, err
	}
	group, err := n.group()
	if err != nil {
		return 0, err
	}
	if err := errors.Join(cluster.Create(), cluster.SetShares(n.CPUShares), group.Create()); err != nil {
		return 0, err
	}
	log, err := os.OpenFile(filepath.Join(n.Logs(), n.suffixed("cluster")+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	first := exec.Command("/proc/self/exe", InsideCommand)
	first.Args[0] = "tare-cluster-" + n.Layout.Name
	first.Env, first.Dir, first.Stdout, first.Stderr = environment, "/", log, log
	first.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	start, err := first.StdinPipe()
	if err != nil {
		return 0, err
	}
	defer start.Close()
	if err := first.Start(); err != nil {
		return 0, err
	}
	go func() { ended(fmt.Errorf("the first process of %s ended: %w", n.name(), first.Wait())) }()
	pid := first.Process.Pid
	add := group.Add
	if n.several() {
		add = group.AddTop // it moves itself once it has this group as its root
	}
	if err := add(pid); err != nil {
		return 0, errors.Join(err, first.Process.Kill())
	}
	if err := (link{n.Layout}).connect(n, pid); err != nil {
		return 0, err
	}
	return pid, json.NewEncoder(start).Encode(n)
}

// InsideCommand is the argument by which a program that uses this package is called to run Inside with its
// standard input.
const InsideCommand = "inside"

// progress prints a finished step and the seconds since the start.
type progress func(format string, arguments ...any)

func newProgress(w io.Writer) progress {
	begun := time.Now()
	return func(format string, arguments ...any) {
		fmt.Fprintf(w, "cluster: %5.1fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, arguments...))
	}
}
