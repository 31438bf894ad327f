package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// probes is the number of requests that check the application's answers.
	probes       = 20
	probeTimeout = 5 * time.Second
	// probeConnections is the number of connections for them, more if there are more targets.
	probeConnections = 4
	// maxProbeConnections and maxProbes bound the connections and requests of one worker that reach every replica.
	maxProbeConnections = 256
	maxProbes           = 5000
)

// prober sends verification requests to the entry, on the way of the load.
type prober struct {
	*trial
	pods  *trialPods
	entry *entryPoint
	load  loadSource
	probe platform.Probe // of the verification
}

// send sends the probes from one load source.
func (p *prober) send(ctx context.Context) (load.Report, error) {
	return p.sendFrom(ctx, probes, p.load.StartLoad)
}

// reachAll sends enough probes from every load source to reach each replica, and returns their number.
// An answer that the file of the experiment does not ask for is an error.
func (p *prober) reachAll(ctx context.Context) (int, error) {
	n := min(max(probes, requestsToReach(p.maxReplicas())), maxProbes)
	starters := p.load.starters()
	counts := make([]int, len(starters))
	var sending errgroup.Group
	for i, start := range starters {
		sending.Go(routine.Guarded(func() error {
			report, err := p.sendFrom(ctx, n, start)
			if err != nil {
				return err
			}
			ok, detail := p.accept(report)
			if counts[i] = int(report.Requests); !ok {
				return fmt.Errorf("load worker %d: %s", i, detail)
			}
			return nil
		}))
	}
	err := sending.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum, err
}

// maxReplicas is the number of pods of the largest service, waypoint or gateway.
func (p *prober) maxReplicas() int {
	count, most := map[string]int{}, max(1, p.enrolment.Replicas)
	for _, pod := range p.pods.all() {
		if service := p.serviceOf(pod); service != "" && service != loadService {
			count[service]++
			most = max(most, count[service])
		}
	}
	return most
}

// sendFrom sends n requests with a load engine that start starts. More than [probes] go over a connection each, since a
// balancer of connections must reach every replica too.
func (p *prober) sendFrom(ctx context.Context, n int, start starter) (load.Report, error) {
	connections := probeConnections
	if n > probes {
		connections = min(n, maxProbeConnections)
	}
	profile := p.probe.Load
	profile.Rate, profile.ConnectionRate, profile.Arrivals, profile.Segments = 0, 0, "", nil
	profile.Warmup, profile.Measure, profile.Tail, profile.Requests = 0, probeTimeout, 0, int64(n)
	profile.Connections, profile.Workers, profile.Timeout, profile.Drain = max(connections, len(profile.Targets)), 1, probeTimeout, probeTimeout
	stdin, err := json.Marshal(profile)
	if err != nil {
		return load.Report{}, fmt.Errorf("write load profile: %w", err)
	}
	var out bytes.Buffer
	process, err := start(ctx, proc.Command{Path: p.agent(), Args: []string{"load"}, Stdin: bytes.NewReader(stdin), Stdout: &out})
	if err != nil {
		return load.Report{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = process.Stop(context.WithoutCancel(ctx), 0) })()
	if err := process.Wait(); err != nil {
		return load.Report{}, fmt.Errorf("send probes: %w", err)
	}
	return load.LastReport(out.Bytes())
}

// agent is the path of tare-agent where the load comes from.
func (p *prober) agent() string {
	if p.options.Outside {
		return cmp.Or(p.options.Agent, agentProgram)
	}
	return agentProgram
}

// accept reports whether the answers of a report are those that the file asks for.
func (p *prober) accept(r load.Report) (ok bool, detail string) {
	a := platform.Answers{Good: int(r.Classes[load.OK]), Failed: map[string]int{}}
	success, left := p.probe.Load.Success(), int(r.Requests)-a.Good
	for _, counts := range []map[string]int64{r.Statuses, r.Errors} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if n := min(int(counts[name]), left); n > 0 && !success[load.StatusOf(name)] { // an error has no status

				a.Failed[name] += n
				left -= n
			}
		}
	}
	if left > 0 {
		a.Failed["no response"] = left
	}
	return p.spec.Accept(p.probe, a)
}
