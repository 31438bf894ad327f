package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform/local"
)

// Program has the parts of a program of tare for its sessions: the variants of each kind, and a place for messages.
type Program struct {
	Version    string
	Generators []generator.Generator
	Platforms  []Platform
	NewMeter   func() (meter.Meter, error) // of this machine
	Kubernetes *Kubernetes                 // nil in a program without the Kubernetes libraries
	// Note receives lines for the user.
	Note func(line string)

	sweeping sync.Once
}

// Kubernetes is the part of a session that needs the Kubernetes libraries.
type Kubernetes struct {
	// Open opens the platform for a run.
	Open func(context.Context, Opening) (*Opened, error)
	// Generators replaces load generators by those in images, for an experiment whose load is sent from the cluster.
	Generators func(*experiment.Experiment, map[string]generator.Generator) (map[string]generator.Generator, error)
	// Copy reads the application that runs in a namespace.
	Copy func(ctx context.Context, p experiment.Platform, namespace string) (*manifest.Set, error)
}

// Platform is one kind of platform for trials.
type Platform struct {
	Name, Doc string
	Open      func(context.Context, Opening) (*Opened, error)
	// Refresh is the expected counter refresh interval. 0 means that counters are current at every reading.
	Refresh time.Duration
	// Overhead is about how much longer a trial takes than on this machine, without waiting for counters.
	Overhead time.Duration
}

// refreshOf returns the expected counter refresh interval of an experiment.
// 0 means that counters are current at every reading.
func (v Platform) refreshOf(x *experiment.Experiment) time.Duration {
	if x.ByNodeAgent() {
		return 0
	}
	return v.Refresh
}

// Names of the meters of a cluster, as platform.meter has them.
const (
	MeterKubelet   = experiment.Kubelet
	MeterNodeAgent = experiment.NodeAgent
)

// ClusterMeters are in order of preference.
var ClusterMeters = []struct{ Name, Doc string }{
	{MeterKubelet, "counters of the nodes' kubelets, through the API server"},
	{MeterNodeAgent, "control groups of the nodes, read by tare's agent on each; only on disposable clusters"},
}

// kubernetesOverhead is about how long deploying and removing a trial takes.
const kubernetesOverhead = 20 * time.Second

// NewProgram returns a program with every variant, whose messages are dropped. A nil k is a program without the Kubernetes libraries.
func NewProgram(version string, k *Kubernetes) *Program {
	p := &Program{
		Version:    version,
		Generators: generator.Generators(),
		NewMeter:   func() (meter.Meter, error) { return meter.NewLocal() },
		Kubernetes: k,
		Note:       func(string) {},
	}
	onCluster := Platform{Name: mesh.OnKubernetes, Doc: "pods on a cluster that a kubeconfig names", Refresh: meter.KubeletRefresh, Overhead: kubernetesOverhead}
	if k != nil {
		onCluster.Open = k.Open
	}
	p.Platforms = []Platform{{Name: mesh.OnLocal, Doc: "processes on this machine; no root, no cluster", Open: p.openLocal}, onCluster}
	return p
}

// Sweep removes what killed runs left on this machine, once in a process.
func (p *Program) Sweep() {
	p.sweeping.Do(func() { local.Sweep(p.Note) })
}

// ErrKubernetes reports that an experiment needs the Kubernetes libraries, which this program does not have.
var ErrKubernetes = errors.New("tare-kube has the Kubernetes libraries, which this experiment needs")

// Runs returns [ErrKubernetes] if the experiment runs on a cluster and this program cannot. It comes before anything that has an effect.
func (p *Program) Runs(x *experiment.Experiment) error {
	if x.Platform.Kind == mesh.OnKubernetes && p.Kubernetes == nil {
		return ErrKubernetes
	}
	return nil
}

// namesWith returns the names with definitions of meshes, by name, and the versions of their programs.
func (p *Program) namesWith(definitions map[string]mesh.Definition) experiment.Names {
	names := p.Names()
	names.Meshes, names.Definitions, names.Versions = slices.Sorted(maps.Keys(definitions)), definitions, map[string][]string{}
	for _, d := range definitions {
		if d.Local != nil {
			names.Versions[d.Local.Sidecar.Program] = fetch.Versions(d.Local.Sidecar.Program)
		}
	}
	return names
}

// Names returns the names that an experiment file may use.
func (p *Program) Names() experiment.Names {
	names := experiment.Names{
		Meshes: mesh.Names(), Protocols: app.Protocols(), Topologies: app.Names(),
		Platforms:  lists.Map(p.Platforms, func(one Platform) string { return one.Name }),
		Generators: lists.Map(p.Generators, func(g generator.Generator) string { return g.Name() }),
	}
	for _, m := range ClusterMeters {
		names.Meters = append(names.Meters, m.Name)
	}
	return names
}

// GeneratorsByName returns the load generators by the level of the factor generator.
func (p *Program) GeneratorsByName() map[string]generator.Generator {
	all := map[string]generator.Generator{}
	for _, g := range p.Generators {
		all[g.Name()] = g
	}
	return all
}

// platform returns a platform by name. The experiment file was checked against the same list.
func (p *Program) platform(name string) Platform {
	one, _ := lists.First(p.Platforms, func(one Platform) bool { return one.Name == name })
	return one
}

func (p *Program) openLocal(_ context.Context, o Opening) (*Opened, error) {
	p.Sweep()
	if err := errors.Join(cpusExist(o.Experiment.Platform.CPUs), connectionsFit(o.Experiment.Factors)); err != nil {
		return nil, err
	}
	m, err := p.NewMeter()
	if err != nil {
		return nil, err
	}
	return &Opened{
		Platform:    local.New(local.Options{AgentPath: generator.AgentPath(), FetchProgram: p.fetchProgram, ProgramAt: programAt, ProgramOf: p.programOf, Report: o.Note}).Declare(),
		Meter:       m,
		Environment: meter.Host(),
	}, nil
}

// cpusExist refuses processors that this machine does not have, or that this process
// may not use. Another machine may have them: only a run can check it.
func cpusExist(pinned map[string]string) error {
	allowed, err := proc.AllowedCPUs()
	if err != nil {
		return nil // pinning reports its own error
	}
	var errs []error
	for _, plane := range slices.Sorted(maps.Keys(pinned)) {
		cpus, err := proc.ParseCPUs(pinned[plane])
		if err != nil {
			return fmt.Errorf("platform.cpus.%s: %w", plane, err)
		}
		missing := slices.DeleteFunc(cpus, func(cpu int) bool { return slices.Contains(allowed, cpu) })
		if len(missing) > 0 { // the start of each task would fail
			slices.Sort(missing)
			errs = append(errs, fmt.Errorf("platform.cpus.%s: this process may not use %s of the processors %s", plane, listed(slices.Compact(missing)), pinned[plane]))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return hint.Usage(errors.Join(errs...), "processors that it may use: "+listed(allowed))
}

// ownFiles is about how many descriptors the load process needs beside its connections.
const ownFiles = 32

// connectionsFit refuses more connections than this process may open files. Another machine may allow more.
func connectionsFit(f experiment.Factors) error {
	for i, n := range experiment.LevelsOf[int](f, "connections") {
		if err := FilesFit(fmt.Sprintf("factors.connections[%d]", i), n); err != nil {
			return err
		}
	}
	return nil
}

// FilesFit refuses more connections than one process may open files.
func FilesFit(field string, connections int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(connections)+ownFiles <= uint64(limit.Max) {
		return nil // without a limit, the load reports its own error
	}
	return hint.Usage(fmt.Errorf("%s: %d connections and %d other files are more than the %d files that a process may open (ulimit -n)", field, connections, ownFiles, limit.Max),
		fmt.Sprintf("raise the limit to %d (ulimit -n, as root above ulimit -Hn), or lower the connections", connections+ownFiles))
}

// listed formats processors as taskset does: 0-3,6.
func listed(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		k := i
		for k+1 < len(cpus) && cpus[k+1] == cpus[k]+1 {
			k++
		}
		if k == i {
			parts = append(parts, fmt.Sprint(cpus[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", cpus[i], cpus[k]))
		}
		i = k + 1
	}
	return strings.Join(parts, ",")
}

// MissingPrograms are errors about programs of the plan's meshes that this machine lacks, and that no run downloads.
func (s *Study) MissingPrograms(ctx context.Context) (all []error) {
	seen := map[string]bool{}
	for _, t := range s.Plan.Treatments {
		d := s.Meshes[t.Levels.Mesh]
		if s.Experiment.Platform.Kind != mesh.OnLocal || d.Local == nil || s.Experiment.Meshes[t.Levels.Mesh].Program != "" {
			continue
		}
		for _, name := range d.Local.Programs() {
			if seen[name] || fetch.Packages[name] == "" {
				continue
			}
			seen[name] = true
			if _, err := fetch.Find(ctx, name, fetch.Options{Offline: true}); err != nil {
				all = append(all, err)
			}
		}
	}
	return all
}

// fetchProgram finds a program by the name that a mesh definition gives it, and downloads it.
func (p *Program) fetchProgram(ctx context.Context, name string) (path, version string, err error) {
	found, err := fetch.Find(ctx, name, fetch.Options{Log: p.Note})
	return found.Path, found.Version, err
}

// programOf finds a version of a program, and downloads it.
func (p *Program) programOf(ctx context.Context, name, version string) (path, found string, err error) {
	f, err := fetch.FindVersion(ctx, name, version, fetch.Options{Log: p.Note})
	return f.Path, f.Version, err
}

// programAt finds a program at a path. Its version includes the start of its digest: two builds may print one version.
func programAt(ctx context.Context, name, path string) (found, version string, err error) {
	f, err := fetch.At(ctx, name, path)
	if err != nil {
		return "", "", err
	}
	return f.Path, strings.TrimSpace(f.Version + " (sha256 " + f.SHA256[:12] + ")"), nil
}
