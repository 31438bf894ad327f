package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
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
}

// send sends the probes from one load source.
func (p *prober) send(ctx context.Context) (load.Report, error) {
	return p.sendFrom(ctx, probes, p.load.StartLoad)
}

// reachAll sends enough probes from every load source to reach each replica, and returns the number of successful ones.
// A probe that fails is an error.
func (p *prober) reachAll(ctx context.Context) (int, error) {
	n := min(max(probes, requestsToReach(p.maxReplicas())), maxProbes)
	starters := p.load.starters()
	counts := make([]int, len(starters))
	var sending errgroup.Group
	for i, start := range starters {
		sending.Go(func() error {
			report, err := p.sendFrom(ctx, n, start)
			if err != nil {
				return err
			}
			if counts[i] = int(report.Classes[load.OK]); counts[i] < int(report.Requests) {
				return fmt.Errorf("load worker %d: %d of %d probes succeeded; the others: %s", i, counts[i], report.Requests, failures(report))
			}
			return nil
		})
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
	targets := p.entry.Entry()
	profile := load.Profile{
		Targets: targets, RequestSize: int64(p.spec.Treatment.Levels.RequestSize), ExpectSize: p.responseSize(),
		Connections: max(connections, len(targets)), Workers: 1, Protocol: p.spec.Protocol(p.spec.Entry()), Timeout: probeTimeout,
		Measure: probeTimeout, Requests: int64(n), Drain: probeTimeout,
	}
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

// responseSize is the length of every response of the entry, in bytes, negative if it varies.
func (p *prober) responseSize() int64 {
	if p.spec.Protocol(p.spec.Entry()) == app.TCP {
		return -1 // an echo has the length of the request
	}
	return p.spec.Topology.AnswerSize(p.spec.Entry(), int64(p.spec.Treatment.Levels.ResponseSize))
}

// failures counts the failed requests of a report, by status and error.
func failures(r load.Report) string {
	var all []string
	for _, counts := range []map[string]int64{r.Statuses, r.Errors} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if name != "200" {
				all = append(all, fmt.Sprintf("%s (%d)", name, counts[name]))
			}
		}
	}
	if all == nil {
		return "no response"
	}
	return strings.Join(all, ", ")
}
