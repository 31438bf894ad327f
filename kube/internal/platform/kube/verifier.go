package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/worker"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// probePause is the pause before failed probes are repeated.
const probePause = 500 * time.Millisecond

// verifier checks that the application answers, that pods have the right containers, and that traffic passes the mesh.
type verifier struct {
	*trial
	pods    *trialPods
	monitor *podMonitor
	prober  *prober
	applier *applier
	archive archive
}

func (v *verifier) Verify(ctx context.Context, probe platform.Probe) (done platform.Verification, err error) {
	if err := v.monitor.Err(); err != nil {
		return done, fmt.Errorf("verify: %w", err)
	}
	limits := v.checkLimits()
	if done.Checks = []check.Check{limits}; !limits.OK { // throttled probes would fail without the reason
		return done, nil
	}
	v.prober.probe = v.spec.Completed(probe, v.prober.entry.Entry())
	answers, err := v.checkAnswers(ctx)
	if err != nil {
		return done, fmt.Errorf("verify: %w", err)
	}
	done.Checks = append(done.Checks, answers, v.checkContainers())
	if !v.enrolment.enrolled || !answers.OK {
		return done, nil
	}
	of, err := v.checkMesh(ctx)
	done.Checks = append(done.Checks, of...)
	if err == nil {
		done.Checks = append(done.Checks, knownServices{v.trial}.check(ctx, v.pods.all())...)
	}
	return done, err
}

// checkAnswers sends probes until all of them succeed, for at most openTimeout.
func (v *verifier) checkAnswers(ctx context.Context) (check.Check, error) {
	c := check.Check{Name: "answers of " + v.spec.Entry().Name}
	err := wait.Within(ctx, openTimeout, probePause, func(context.Context) error {
		report, err := v.prober.send(ctx) // one that has begun is not cut short
		if err != nil {
			return wait.Stop(err)
		}
		if c.OK, c.Detail = v.prober.accept(report); !c.OK {
			return errors.New(c.Detail)
		}
		return nil
	})
	if err != nil && c.Detail != "" && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		c.Hint = "the application or a proxy in front of it fails; see their logs in the trial's provenance directory"
		return c, nil
	}
	return c, err
}

// checkContainers compares the containers of every pod with its manifest: without a mesh nothing is injected, with a
// mesh of sidecars every pod has its proxy.
func (v *verifier) checkContainers() check.Check {
	c := check.Check{Name: "containers"}
	pods := v.pods.all()
	proxies := v.sidecars()
	for _, pod := range pods {
		manifest, err := v.manifestOf(pod)
		want, got := manifest.containers, containerNames(pod)
		if err != nil {
			continue // a gateway of the mesh in the namespace
		}
		if v.spec.Mesh.Kubernetes == nil && !slices.Equal(got, want) {
			c.Detail = fmt.Sprintf("pod %s has the containers %s, its manifest has %s", pod.Name, strings.Join(got, ", "), strings.Join(want, ", "))
			c.Hint = "the cluster injects containers into every namespace: find an admission webhook without a namespace selector"
			return c
		}
		for _, name := range want { // those that a variant adds among them
			if !slices.Contains(got, name) {
				c.Detail = fmt.Sprintf("pod %s has the containers %s, without %s of its manifest", pod.Name, strings.Join(got, ", "), name)
				c.Hint = "an admission webhook of the cluster removes it"
				return c
			}
		}
		for _, proxy := range proxies {
			if !slices.ContainsFunc(got, func(name string) bool { return mesh.Match(proxy, name) }) && (v.enrolment.loadInside || pod.Labels[labelService] != loadService) {
				c.Detail = fmt.Sprintf("pod %s has the containers %s, without %s", pod.Name, strings.Join(got, ", "), proxy)
				c.Hint = "the mesh injected no proxy: see its injector's log, and the labels of the pod and of its namespace"
				return c
			}
		}
	}
	c.OK = true
	c.Detail = fmt.Sprintf("%d pods have exactly the containers of their manifests", len(pods))
	if len(proxies) > 0 {
		c.Detail = fmt.Sprintf("%d pods have the containers of their manifests, and %s", len(pods), strings.Join(proxies, ", "))
	}
	return c
}

// sidecars are the containers that the mesh injects into every pod.
func (v *verifier) sidecars() []string {
	if v.spec.Mesh.Kubernetes == nil {
		return nil
	}
	injected := lists.Where(v.spec.Mesh.Kubernetes.Proxies, func(p mesh.Proxy) bool { return p.In == mesh.InPod })
	return lists.Map(injected, func(p mesh.Proxy) string { return p.Container })
}

// manifestOf is the manifest of a pod, before injection.
func (v *verifier) manifestOf(pod *corev1.Pod) (t podTemplate, err error) {
	if v.othersWrote(pod) {
		t, ok := v.foreign.template(pod)
		if !ok {
			return t, fmt.Errorf("pod %s is not of the chart", pod.Name)
		}
		return t, nil
	}
	spec, err := manifests{v.trial}.podOf(pod.Labels[labelService])
	t.add(slices.Concat(spec.InitContainers, spec.Containers)...)
	return t, err
}

// othersWrote reports whether a pod is of an application that others wrote, and not of the load.
func (v *verifier) othersWrote(pod *corev1.Pod) bool {
	return v.foreign != nil && pod.Labels[labelService] == ""
}

// containerNames are the names of a pod's containers, init containers first.
func containerNames(pod *corev1.Pod) []string {
	return lists.Map(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) string { return c.Name })
}

// checkMesh verifies the mesh with probes and archives its manifests and running configuration.
func (v *verifier) checkMesh(ctx context.Context) ([]check.Check, error) {
	traffic := trafficByService(v.spec, v.enrolment.loadInside, v.enrolment.front != nil)
	client := newOutsideClient(v.applier)
	checks, err := v.mesh.Verify(ctx, meshes.Target{
		Namespace:  v.namespace,
		LoadInside: v.enrolment.loadInside,
		Front:      v.enrolment.front,
		Traffic:    func(pod *corev1.Pod) meshes.PodTraffic { return traffic[v.serviceOf(pod)] },
		IsLoad:     func(pod *corev1.Pod) bool { return pod.Labels[labelService] == loadService },
		IsOutside:  func(pod *corev1.Pod) bool { return v.isSimulated(pod) || pod.Labels[labelBackground] != "" },
		Probe:      v.prober.reachAll,
		Plaintext:  client.Request,
	})
	err = errors.Join(err, client.Remove(ctx))
	if err == nil && v.spec.Topology.CallsUnknown() {
		err = v.recordCalls(ctx)
	}
	if err != nil || !v.archive.Enabled() {
		return checks, err
	}
	return checks, v.mesh.Archive(ctx, v.namespace, v.archive.meshFile)
}

// recordCalls keeps the calls that the probes caused, and prints them once in a run.
func (v *verifier) recordCalls(ctx context.Context) error {
	graph := &callGraph{v.trial, v.pods}
	text := graph.text(graph.find(ctx))
	if text == "" {
		return nil
	}
	if v.options.calls != text {
		v.options.calls = text
		v.options.Report(callsFound(text))
	}
	return v.archive.Append(callsFile, "# calls that the proxies saw during the verification\nservices: [%s]\n", text)
}

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
	return lists.Sum(counts, func(n int) int { return n }), err
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

const (
	// outsideClientName is the pod's name and the suffix of its namespace.
	outsideClientName = "outside-client"
	// outsideClientTimeout bounds one of its requests.
	outsideClientTimeout = 5 * time.Second
)

// OutsideClient is a pod outside the mesh that sends plaintext requests to pods inside. A mesh that admits requests from
// nodes, such as the API server's, cannot be tested otherwise. The pod has a namespace of its own, without the
// labels of the mesh. It exists only during verification and is not measured.
type OutsideClient struct {
	applier   *applier
	namespace string
	worker    *loadWorker // nil until the first request
}

// NewOutsideClient prepares the client beside an application that tare did not deploy. Cluster, Run and Image of the options
// are used.
func NewOutsideClient(o Options) *OutsideClient {
	if o.Report == nil {
		o.Report = func(string) {}
	}
	return newOutsideClient(&applier{trial: &trial{options: &o, cluster: o.Cluster, namespace: namespacePrefix(o.Run)}})
}

func newOutsideClient(a *applier) *OutsideClient {
	const suffix = "-" + outsideClientName
	return &OutsideClient{applier: a, namespace: strings.TrimRight(a.namespace[:min(len(a.namespace), maxLabel-len(suffix))], "-") + suffix}
}

// Request sends one request without TLS to a pod's port and reports whether it was admitted. A request that reached no
// listener is an error.
func (o *OutsideClient) Request(ctx context.Context, pod *corev1.Pod, port int32) (admitted bool, detail string, err error) {
	if o.worker == nil {
		if err := o.Create(ctx); err != nil {
			return false, "", fmt.Errorf("create a pod outside the mesh: %w", err)
		}
	}
	stdin, err := json.Marshal(o.profile(pod, port))
	if err != nil {
		return false, "", fmt.Errorf("write load profile: %w", err)
	}
	_, out, errOut, err := o.worker.output(ctx, worker.Command{Path: "/" + agentProgram, Args: []string{"load"}, Stdin: stdin})
	if err != nil {
		return false, "", fmt.Errorf("send a request from pod %s/%s: %w", o.namespace, outsideClientName, err)
	}
	report, err := load.LastReport(out)
	if err != nil {
		return false, "", fmt.Errorf("%w: %.300s", err, bytes.TrimSpace(errOut))
	}
	return admission(report)
}

// profile is one request in the protocol of the pod's service. A gRPC server that lacks the method answers too.
func (o *OutsideClient) profile(pod *corev1.Pod, port int32) load.Profile {
	protocol, path := o.protocol(pod), "/"
	if protocol == app.GRPC {
		path = app.GRPCMethod
	}
	return load.Profile{
		Targets:     []string{"http://" + net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port)) + path},
		Connections: 1, Workers: 1, Protocol: protocol, ExpectSize: -1, Timeout: outsideClientTimeout, Measure: outsideClientTimeout, Requests: 1, Drain: outsideClientTimeout,
	}
}

func (o *OutsideClient) protocol(pod *corev1.Pod) string {
	if service, ok := o.applier.spec.Topology.Service(o.applier.serviceOf(pod)); ok {
		return o.applier.spec.Protocol(service)
	}
	return app.HTTP1
}

var (
	// closedErrors are errors of a connection that was accepted and closed without a response.
	closedErrors = []string{"reset", "closed before an answer", "idle connection closed"}
	// connectErrors are errors of a connection that was not accepted. They show nothing about the mesh.
	connectErrors = []string{"connect refused", "connect failed", "timeout", "timeout before a connection was free", "out of file descriptors", "out of local ports"}
)

// refusals are the statuses of a proxy that refuses a request: forbidden, and gRPC's permission denied.
var refusals = []string{"403", load.StatusGRPCPrefix + "7"}

// admission judges one request by its end. Any response, even a malformed one, comes from the application, except the
// refusals of a proxy.
func admission(r load.Report) (admitted bool, detail string, err error) {
	for status := range r.Statuses {
		return !slices.Contains(refusals, status), "status " + status, nil
	}
	if r.Classes[load.OK] > 0 { // an echo, which has no status
		return true, "answered", nil
	}
	for failure := range r.Errors {
		if failure == load.FailureUpgrade.String() && strings.HasPrefix(r.Reasons[failure], "status 403") {
			return false, "status 403", nil
		}
		if slices.Contains(connectErrors, failure) {
			return false, "", errors.New(failure)
		}
		return !slices.Contains(closedErrors, failure), failure, nil
	}
	return false, "", errors.New("the request did not end")
}

// Create creates the pod and connects to it.
func (o *OutsideClient) Create(ctx context.Context) error {
	if err := o.applier.createNamespace(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.namespace}}); err != nil {
		return err
	}
	token := newToken(false)
	err := o.applier.apply(ctx,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: tokenName}, StringData: map[string]string{tokenKey: token}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: outsideClientName}, Spec: manifests{o.applier.trial}.workerPod()})
	if err != nil {
		return err
	}
	if err := o.applier.wait(ctx, cluster.Ref{Kind: cluster.KindPod, Namespace: o.namespace, Name: outsideClientName}); err != nil {
		return err
	}
	o.worker = o.applier.dial(o.namespace, outsideClientName, token)
	return nil
}

// Remove deletes the pod and its namespace, if they were created, and waits until they are gone.
func (o *OutsideClient) Remove(ctx context.Context) error {
	ctx, cancel := removalContext(ctx)
	defer cancel()
	if o.worker != nil {
		o.worker.forward.Close()
	}
	return hint.Prefix(o.applier.deleteNamespace(ctx, o.namespace), "remove the pod outside the mesh")
}

// shownLimits are named in a check.
const shownLimits = 3

const adviceLimits = "a LimitRange of the namespace or an admission webhook sets them"

// checkLimits compares the limits of every container with its manifest. A limit that the cluster sets throttles or ends
// the load generator and the application. Of an application that others wrote it is a condition, as in production.
func (v *verifier) checkLimits() check.Check {
	c := check.Check{Name: "limits"}
	var own, others []string
	pods := v.pods.all()
	for _, pod := range pods {
		manifest, err := v.manifestOf(pod)
		if err != nil {
			continue // a gateway of the mesh in the namespace
		}
		for _, found := range lowered(pod, manifest) {
			if found = v.pods.name(pod) + "/" + found; v.othersWrote(pod) {
				others = append(others, found)
			} else {
				own = append(own, found)
			}
		}
	}
	if own != nil {
		c.Detail = "not of the manifests: " + printable.Listed(slices.Concat(own, others), shownLimits)
		c.Hint = adviceLimits + ": set the limits to measure with in platform.resources (app, load), or use another namespace"
		return c
	}
	c.OK, c.Detail = true, fmt.Sprintf("%d pods have the limits of their manifests", len(pods))
	if others != nil {
		c.Detail = "the cluster sets limits: " + printable.Listed(others, shownLimits)
		c.Caution = c.Detail + ", a condition of all figures"
		c.Hint = adviceLimits + ": write the limits to measure with into the manifests"
	}
	return c
}

// lowered are the limits of a pod's containers that are lower than in its manifest, or absent there.
func lowered(pod *corev1.Pod, manifest podTemplate) (all []string) {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		wanted, known := manifest.limits[c.Name]
		if !known {
			continue // the mesh injects it
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			has, limited := c.Resources.Limits[name]
			if want, is := wanted[name]; limited && (!is || has.Cmp(want) < 0) {
				all = append(all, fmt.Sprintf("%s %s %s", c.Name, name, has.String()))
			}
		}
	}
	return all
}

// knownWithin bounds the wait until a sidecar has the background services in its configuration.
const knownWithin = 30 * time.Second

// knownServices checks what sidecars know of the background services.
type knownServices struct{ *trial }

// check checks that each sidecar knows the background services, as far as the mesh's definition has a gauge of it.
func (k knownServices) check(ctx context.Context, pods []*corev1.Pod) (checks []check.Check) {
	n := k.spec.Treatment.Levels.BackgroundServices
	if n == 0 || k.spec.Mesh.Kubernetes == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	for _, x := range k.spec.Mesh.Kubernetes.Proxies {
		if x.In != mesh.InPod || x.Services == nil {
			continue
		}
		for _, pod := range pods {
			if slices.ContainsFunc(containerNames(pod), func(name string) bool { return mesh.Match(x.Container, name) }) {
				checks = append(checks, k.by(within, x, pod, meshes.Value))
			}
		}
	}
	return checks
}

func (k knownServices) by(ctx context.Context, x mesh.Proxy, pod *corev1.Pod, read func(context.Context, *cluster.Cluster, mesh.Series, *corev1.Pod) (float64, error)) check.Check {
	c := check.Check{Name: "background services in the " + x.Role + " of " + pod.Name}
	n := k.spec.Treatment.Levels.BackgroundServices
	err := wait.Until(ctx, probePause, func(ctx context.Context) error {
		value, err := read(ctx, k.cluster, *x.Services, pod)
		if err != nil {
			return err
		}
		c.OK, c.Detail = value >= float64(n), fmt.Sprintf("%s is %.0f, at least %d expected", x.Services.Metric, value, n)
		if !c.OK {
			return errors.New(c.Detail)
		}
		return nil
	})
	if !c.OK {
		c.Detail = fmt.Sprintf("%v, after %v", err, knownWithin)
		c.Hint = "the control plane does not send them, or the proxy refuses them; see their logs in the trial's provenance directory"
	}
	return c
}

// trafficByService is the traffic of every service that a request at the entry reaches, and of the load. Calls with a
// probability below 1 are left out: they may not happen. A gateway in front of the entry is part of the mesh.
func trafficByService(s platform.Spec, loadInside, gateway bool) map[string]meshes.PodTraffic {
	all := map[string]meshes.PodTraffic{}
	var visit func(name string, in meshes.Traffic)
	visit = func(name string, in meshes.Traffic) {
		t, visited := all[name]
		service, ok := s.Topology.Service(name)
		if !ok {
			return
		}
		t.In = meshes.Traffic{Some: true, Inside: t.In.Inside || in.Inside, HTTP: in.HTTP}
		all[name] = t
		if visited {
			return
		}
		for _, c := range service.Calls {
			callee, ok := s.Topology.Service(c.Service)
			if !ok || c.Probability != nil && *c.Probability < 1 {
				continue
			}
			out := meshes.Traffic{Some: true, Inside: true, HTTP: s.Protocol(callee) != app.TCP}
			visit(c.Service, out)
			t := all[name]
			t.Out = meshes.Traffic{Some: true, Inside: true, HTTP: t.Out.HTTP || out.HTTP}
			all[name] = t
		}
	}
	entry := s.Entry()
	load := meshes.Traffic{Some: true, Inside: loadInside || gateway, HTTP: s.Protocol(entry) != app.TCP}
	visit(entry.Name, load)
	if loadInside {
		all[loadService] = meshes.PodTraffic{Out: load}
	}
	return all
}

// requestsToReach is the number of requests or connections to random replicas that reach all n of them with a probability
// above 0.999. It is n (ln n + 7), by Erdős and Rényi's limit for the coupon collector's problem.
func requestsToReach(n int) int {
	return int(math.Ceil(float64(n) * (math.Log(float64(n)) + 7)))
}
