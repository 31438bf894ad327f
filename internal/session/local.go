package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform/local"
)

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
	allowed, err := probe.Allowed()
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
	if err != nil {
		return "", "", err
	}
	return found.Path, found.Version, nil
}

// programOf finds a version of a program, and downloads it.
func (p *Program) programOf(ctx context.Context, name, version string) (path, found string, err error) {
	f, err := fetch.FindVersion(ctx, name, version, fetch.Options{Log: p.Note})
	if err != nil {
		return "", "", err
	}
	return f.Path, f.Version, nil
}

// programAt finds a program at a path. Its version includes the start of its digest: two builds may print one version.
func programAt(ctx context.Context, name, path string) (found, version string, err error) {
	f, err := fetch.At(ctx, name, path)
	if err != nil {
		return "", "", err
	}
	return f.Path, strings.TrimSpace(f.Version + " (sha256 " + f.SHA256[:12] + ")"), nil
}
