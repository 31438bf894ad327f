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

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load/loadgen"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/base/proc"
)

const (
	// probes are the requests that are sent to see whether the application answers as it should.
	probes       = 20
	probeTimeout = 5 * time.Second
	// probeConnections are few, and at least one for each target.
	probeConnections = 4
	// openWithin is how long the way to the application may take to open once everything is ready: names and
	// addresses reach the nodes a little after the pods are.
	openWithin = 20 * time.Second
	openPause  = 500 * time.Millisecond
)

// Verify implements [platform.Verifier]: the entry is asked from a load worker, and the pods are looked at.
func (d *deployment) Verify(ctx context.Context) ([]platform.Check, error) {
	if err := d.Err(); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	answers, err := d.probe(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	checks := []platform.Check{answers, d.containersCheck()}
	if !d.enrolment.is || !answers.OK {
		return checks, nil
	}
	of, err := d.meshChecks(ctx)
	return append(checks, of...), err
}

// probe sends probes until all of them are answered, for openWithin at most.
func (d *deployment) probe(ctx context.Context) (platform.Check, error) {
	entry := d.spec.Entry()
	c := platform.Check{Name: "answers of " + entry.Name}
	pause := time.NewTicker(openPause)
	defer pause.Stop()
	for deadline := time.Now().Add(openWithin); ; {
		report, err := d.sendProbes(ctx)
		if err != nil {
			return c, err
		}
		good := report.Classes[loadgen.OK]
		c.OK = good == probes && report.Requests == probes
		c.Detail = fmt.Sprintf("%d of %d probes were answered with status 200%s", good, report.Requests, ofLength(d.answerSize()))
		if c.OK {
			return c, nil
		}
		c.Detail += "; the others: " + others(report)
		c.Hint = "the application, or a proxy before it, does not do what was asked; see their logs in the trial's provenance directory"
		if time.Now().After(deadline) {
			return c, nil
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return c, context.Cause(ctx)
		}
	}
}

// answerSize is the length of every answer of the entry, bytes; negative: any.
func (d *deployment) answerSize() int64 {
	if d.spec.Protocol(d.spec.Entry()) == app.TCP {
		return -1 // an echo is as long as what was sent
	}
	return d.spec.Topology.AnswerSize(d.spec.Entry(), int64(d.spec.Treatment.Levels.ResponseSize))
}

func ofLength(bytes int64) string {
	if bytes < 0 {
		return ""
	}
	return fmt.Sprintf(" and %d bytes", bytes)
}

// others tells what was not as it should be, by name.
func others(r loadgen.Report) string {
	var all []string
	for _, of := range []map[string]int64{r.Statuses, r.Errors} {
		for _, what := range slices.Sorted(maps.Keys(of)) {
			if what != "200" {
				all = append(all, fmt.Sprintf("%s (%d)", what, of[what]))
			}
		}
	}
	if all == nil {
		return "no answer"
	}
	return strings.Join(all, ", ")
}

// sendProbes has a load worker send so many requests, each the way the load will be sent.
func (d *deployment) sendProbes(ctx context.Context) (loadgen.Report, error) {
	return d.probeBy(ctx, probes, func(cmd proc.Command) (platform.Process, error) { return d.StartLoad(ctx, cmd) })
}

// probesOf has one load worker send n requests.
func (d *deployment) probesOf(ctx context.Context, worker, n int) (loadgen.Report, error) {
	return d.probeBy(ctx, n, func(cmd proc.Command) (platform.Process, error) {
		w, err := d.takeOne(worker)
		if err != nil {
			return nil, err
		}
		return d.startIn(ctx, worker, w, cmd)
	})
}

// probeBy sends n requests by a load engine that is started so: over few connections, or where there are more than [probes]
// over one each, since what balances connections must reach every replica too.
func (d *deployment) probeBy(ctx context.Context, n int, start func(proc.Command) (platform.Process, error)) (loadgen.Report, error) {
	connections := probeConnections
	if n > probes {
		connections = min(n, mostConnections)
	}
	profile := loadgen.Profile{
		Targets: d.Entry(), RequestSize: int64(d.spec.Treatment.Levels.RequestSize), ExpectSize: d.answerSize(),
		Connections: max(connections, len(d.Entry())), Workers: 1, Protocol: d.spec.Protocol(d.spec.Entry()), Timeout: probeTimeout,
		Measure: probeTimeout, Requests: int64(n), Drain: probeTimeout,
	}
	stdin, err := json.Marshal(profile)
	if err != nil {
		return loadgen.Report{}, fmt.Errorf("write load profile: %w", err)
	}
	var out bytes.Buffer
	p, err := start(proc.Command{Path: d.agent(), Args: []string{"load"}, Stdin: bytes.NewReader(stdin), Stdout: &out})
	if err != nil {
		return loadgen.Report{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = p.Stop(context.WithoutCancel(ctx), 0) })()
	if err := p.Wait(); err != nil {
		return loadgen.Report{}, fmt.Errorf("send probes: %w", err)
	}
	return lastReport(out.Bytes())
}

// agentProgram is the program of the image.
const agentProgram = "tare-agent"

// agent is tare-agent where the load is sent from.
func (d *deployment) agent() string {
	if d.platform.options.Outside {
		return cmp.Or(d.platform.options.Agent, agentProgram)
	}
	return agentProgram
}

// lastReport is what the load engine writes last.
func lastReport(out []byte) (loadgen.Report, error) {
	lines := json.NewDecoder(bytes.NewReader(out))
	for lines.More() {
		var line loadgen.Line
		if err := lines.Decode(&line); err != nil {
			return loadgen.Report{}, fmt.Errorf("read the load engine's output: %w", err)
		}
		if line.Report != nil {
			return *line.Report, nil
		}
	}
	return loadgen.Report{}, fmt.Errorf("read the load engine's output: there is no report in %d bytes", len(out))
}

// containersCheck holds the containers of every pod against those it was given: without a mesh nothing is injected,
// with one that stands in pods its proxy is.
func (d *deployment) containersCheck() platform.Check {
	c := platform.Check{Name: "containers"}
	pods := d.own()
	proxies := d.proxiesInPods()
	for _, pod := range pods {
		want, err := d.given(pod)
		got := names(pod)
		if err != nil {
			continue // the mesh's own: a gateway in the namespace
		}
		if d.spec.Mesh.Kubernetes == nil && !slices.Equal(got, want) {
			c.Detail = fmt.Sprintf("pod %s has the containers %s, and was given %s", pod.Name, strings.Join(got, ", "), strings.Join(want, ", "))
			c.Hint = "something in the cluster injects containers into every namespace: an admission webhook without a selector, perhaps"
			return c
		}
		for _, proxy := range proxies {
			if !slices.ContainsFunc(got, func(name string) bool { return mesh.Match(proxy, name) }) && (d.enrolment.loadInside || pod.Labels[labelService] != loadService) {
				c.Detail = fmt.Sprintf("pod %s has the containers %s, and not %s", pod.Name, strings.Join(got, ", "), proxy)
				c.Hint = "the mesh did not take it in: see its injector's log, and the labels of the pod and of its namespace"
				return c
			}
		}
	}
	c.OK = true
	c.Detail = fmt.Sprintf("%d pods have the containers they were given, and no other", len(pods))
	if len(proxies) > 0 {
		c.Detail = fmt.Sprintf("%d pods have the containers they were given, and %s", len(pods), strings.Join(proxies, ", "))
	}
	return c
}

// proxiesInPods are the containers that the mesh puts into every pod.
func (d *deployment) proxiesInPods() (containers []string) {
	if d.spec.Mesh.Kubernetes == nil {
		return nil
	}
	for _, p := range d.spec.Mesh.Kubernetes.Proxies {
		if p.In == mesh.InPod {
			containers = append(containers, p.Container)
		}
	}
	return containers
}

// names are those of a pod's containers, native sidecars and other init containers included.
func names(pod *corev1.Pod) (all []string) {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		all = append(all, c.Name)
	}
	return all
}
