// Package agents runs tare's node agent on every node of a cluster: a DaemonSet in a
// namespace of its own, for one run. An agent reads control groups through a
// read-only mount, as a user without privileges. It listens on the loopback address
// of its pod, and tare reaches it through the API server, with a token of the run.
package agents

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/inside/nodeagent"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
)

// Label marks the pods of node agents.
const Label = "tare.dev/node-agent"

// Agents are the node agents of one run.
type Agents struct {
	cluster *cluster.Cluster
	run     string
	image   string
	report  func(string)

	mu     sync.Mutex
	token  string // of the started agents
	byNode map[string]*Agent
	lost   map[string]bool   // nodes that were gone or not ready when clocks were last compared
	clocks map[string]offset // by the boot ID of the kernel
	tried  time.Time         // the end of the last [Agents.Reconnect]
}

// Agent is the agent of one node.
type Agent struct {
	*nodeagent.Client
	Node    cluster.Node
	pod     string
	forward *cluster.Forward
}

// offset is the difference of a kernel's clock from tare's.
type offset struct{ ahead, unsure time.Duration }

// New prepares the agents of a run. image is the image of tare-agent.
func New(c *cluster.Cluster, run, image string, report func(string)) *Agents {
	return &Agents{cluster: c, run: run, image: image, report: report}
}

// Permitted refuses a cluster that is not marked as disposable: an agent mounts a directory of the nodes.
func Permitted(ctx context.Context, c *cluster.Cluster) error {
	_, marked, err := guard.New(c).Mark(ctx)
	if err != nil {
		return fmt.Errorf("node agent: %w", err)
	}
	if !marked {
		return hint.New("`tare cluster adopt` marks it; platform.meter: kubelet needs no agent", "node agent: %s is not marked as disposable", c.Name())
	}
	return nil
}

// Namespace is the namespace of a run's agents.
func Namespace(run string) string { return "tare-" + run + "-agents" }

// Start creates the agents, waits until they are ready, and compares their clocks with tare's. A
// second call does nothing. A dry run records the objects.
func (a *Agents) Start(ctx context.Context) error {
	a.mu.Lock()
	started := a.byNode != nil
	a.mu.Unlock()
	if started {
		return nil
	}
	if a.cluster.DryRun() {
		return a.create(ctx, "drawn for each run")
	}
	if err := a.start(ctx); err != nil {
		return errors.Join(fmt.Errorf("start the node agents: %w", err), a.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

func (a *Agents) start(ctx context.Context) error {
	if err := Permitted(ctx, a.cluster); err != nil {
		return err
	}
	nodes, err := a.cluster.Nodes(ctx)
	if err != nil {
		return err
	}
	if err := a.cluster.Delete(ctx, a.report, a.namespace()); err != nil { // of an interrupted attempt
		return err
	}
	token := rand.Text()
	if err := a.create(ctx, token); err != nil {
		return err
	}
	if err := a.connect(ctx, a.namespace().Name, token, nodes); err != nil {
		return err
	}
	// A pod is ready when its program has started: agents listen on the loopback address of their pod, which no probe of the
	// kubelet reaches.
	if err := wait.Within(ctx, startTimeout, 200*time.Millisecond, a.compare); err != nil {
		return err
	}
	a.mu.Lock()
	a.token = token
	a.mu.Unlock()
	return nil
}

// startTimeout bounds the time from ready pods to agents that answer.
const startTimeout = 30 * time.Second

// create creates the objects and waits until the agents are ready.
func (a *Agents) create(ctx context.Context, token string) error {
	namespace := a.namespace()
	stamp := cluster.Stamp{Run: a.run}
	if err := a.cluster.Apply(ctx, stamp, namespaceObject(namespace.Name)); err != nil {
		return err
	}
	if err := a.cluster.WaitReady(ctx, a.report, namespace); err != nil {
		return err
	}
	if err := a.cluster.Apply(ctx, stamp, secret(namespace.Name, token), daemonSet(namespace.Name, a.image)); err != nil {
		return err
	}
	return a.cluster.WaitReady(ctx, a.report, cluster.Ref{Kind: cluster.KindDaemonSet, Namespace: namespace.Name, Name: name})
}

// All returns the agents by the names of their nodes, sorted, without agents on lost nodes.
func (a *Agents) All() []*Agent {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*Agent
	for _, name := range slices.Sorted(maps.Keys(a.byNode)) {
		if !a.lost[name] {
			all = append(all, a.byNode[name])
		}
	}
	return all
}

// Compare compares the clock of each kernel with tare's. Nodes that are containers of one machine
// have the same clock, which is compared once. Nodes that are gone or not ready are left out until the next comparison.
// An agent that does not answer may have been replaced, by eviction or with its node: the present pods are connected.
// A dry run has no clocks.
func (a *Agents) Compare(ctx context.Context) error {
	if a.cluster.DryRun() {
		return nil
	}
	err := a.compare(ctx)
	a.mu.Lock()
	token := a.token
	a.mu.Unlock()
	if err == nil || token == "" || ctx.Err() != nil {
		return err
	}
	nodes, failed := a.cluster.Nodes(ctx)
	if failed != nil || a.connect(ctx, a.namespace().Name, token, nodes) != nil {
		return err
	}
	return a.compare(ctx)
}

func (a *Agents) connect(ctx context.Context, namespace, token string, nodes []cluster.Node) error {
	pods, err := a.pods(ctx, namespace)
	if err != nil {
		return err
	}
	found := map[string]*Agent{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		n := slices.IndexFunc(nodes, func(n cluster.Node) bool { return n.Name == pod.Spec.NodeName })
		if n < 0 || pod.DeletionTimestamp != nil {
			continue
		}
		forward := a.cluster.Forward(namespace, pod.Name, port)
		found[pod.Spec.NodeName] = &Agent{nodeagent.NewClient(forward.DialContext, token), nodes[n], pod.Name, forward}
	}
	if len(found) == 0 {
		return errors.New("no node has one")
	}
	a.mu.Lock()
	before := a.byNode
	a.byNode = found
	a.mu.Unlock()
	for _, agent := range before {
		agent.end()
	}
	return nil
}

func (a *Agents) compare(ctx context.Context) error {
	nodes, err := a.cluster.Nodes(ctx)
	if err != nil {
		return err
	}
	lost := map[string]bool{}
	a.mu.Lock()
	for name := range a.byNode {
		lost[name] = true // unless it is listed: an autoscaler deletes nodes
	}
	for _, n := range nodes {
		lost[n.Name] = !n.Ready
	}
	a.lost = lost
	a.mu.Unlock()
	clocks := map[string]offset{}
	var mu sync.Mutex
	var comparing errgroup.Group
	seen := map[string]bool{}
	for _, agent := range a.All() {
		if key := agent.kernel(); seen[key] {
			continue
		}
		seen[agent.kernel()] = true
		comparing.Go(routine.Guarded(func() error {
			ahead, unsure, err := agent.Client.Compare(ctx)
			if err != nil {
				return fmt.Errorf("clock of node %s: %w", agent.Node.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			clocks[agent.kernel()] = offset{ahead, unsure}
			return nil
		}))
	}
	if err := comparing.Wait(); err != nil {
		return err
	}
	a.mu.Lock()
	a.clocks = clocks
	a.mu.Unlock()
	return nil
}

// Clock returns how far the clock of a node is ahead of tare's, and the uncertainty of that, false if it was
// not compared. All processes of a node have that clock.
func (a *Agents) Clock(node string) (ahead, unsure time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	agent := a.byNode[node]
	if agent == nil {
		return 0, 0, false
	}
	c, ok := a.clocks[agent.kernel()]
	return c.ahead, c.unsure, ok
}

// kernel names the kernel of the agent's node, and with it the clock.
func (a *Agent) kernel() string {
	if a.Node.BootID != "" {
		return a.Node.BootID
	}
	return "node " + a.Node.Name
}

// Reconnect connects to agents that replaced others, as after an eviction, and reports whether there was one. It waits
// for the replacement, which reads the same counters. The other agents keep their connections.
func (a *Agents) Reconnect(ctx context.Context) (replaced bool) {
	a.mu.Lock()
	token, soon := a.token, time.Since(a.tried) < reconnectPause
	a.mu.Unlock()
	if token == "" || soon {
		return false
	}
	_ = wait.Within(ctx, replaceWithin, 200*time.Millisecond, func(ctx context.Context) error {
		pods, err := a.pods(ctx, a.namespace().Name)
		if err != nil {
			return err
		}
		replaced = a.replace(pods.Items, token) || replaced
		if n := a.without(pods.Items); n > 0 {
			return fmt.Errorf("%d nodes have no agent", n)
		}
		return nil
	})
	a.mu.Lock()
	a.tried = time.Now()
	a.mu.Unlock()
	return replaced
}

const (
	// replaceWithin bounds the time until the DaemonSet has replaced a deleted agent.
	replaceWithin = 10 * time.Second
	// reconnectPause is the pause between two calls of Reconnect that wait for a replacement.
	reconnectPause = 30 * time.Second
)

// replace connects to running pods on nodes whose agent was another pod.
func (a *Agents) replace(pods []corev1.Pod, token string) (replaced bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range pods {
		pod := &pods[i]
		before := a.byNode[pod.Spec.NodeName]
		if before == nil || before.pod == pod.Name || !isRunning(pod) {
			continue
		}
		before.end()
		forward := a.cluster.Forward(pod.Namespace, pod.Name, port)
		a.byNode[pod.Spec.NodeName] = &Agent{nodeagent.NewClient(forward.DialContext, token), before.Node, pod.Name, forward}
		a.report(fmt.Sprintf("node agent of %s was replaced while it was needed: connected to its replacement", pod.Spec.NodeName))
		replaced = true
	}
	return replaced
}

// without counts the nodes of agents whose pod does not run.
func (a *Agents) without(pods []corev1.Pod) (n int) {
	for _, agent := range a.All() {
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == agent.pod && isRunning(&p) }) {
			n++
		}
	}
	return n
}

func isRunning(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
}

func (a *Agents) pods(ctx context.Context, namespace string) (*corev1.PodList, error) {
	return cluster.Retried(ctx, a.cluster, "list the node agents", func(ctx context.Context) (*corev1.PodList, error) {
		return a.cluster.Typed().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: Label})
	})
}

// Stop removes the agents and returns when they are gone.
func (a *Agents) Stop(ctx context.Context) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	a.lost = nil
	a.mu.Unlock()
	for _, agent := range a.All() {
		agent.end()
	}
	a.mu.Lock()
	a.byNode, a.token = nil, ""
	a.mu.Unlock()
	return hint.Prefix(a.cluster.Delete(ctx, a.report, a.namespace()), "remove the node agents")
}

func (a *Agents) namespace() cluster.Ref {
	return cluster.Ref{Kind: cluster.KindNamespace, Name: Namespace(a.run)}
}

func (a *Agent) end() {
	a.Close()
	_ = a.forward.Close()
}

// Owns reports whether a pod is a node agent of this run.
func Owns(pod *corev1.Pod, run string) bool {
	return pod.Labels[Label] != "" && pod.Labels[cluster.LabelRun] == run && strings.HasPrefix(pod.Namespace, "tare-")
}

const (
	name = "node-agent"
	// port of the agents, on the loopback address of their pods.
	port      = 9096
	tokenDir  = "/var/run/tare"
	tokenFile = "token"
	// hostGroups is the control-group file system of every node.
	hostGroups = "/sys/fs/cgroup"
	groupsDir  = "/host/cgroup"
	user       = 65532
)

// namespaceObject permits the agents' host directory where the cluster's default pod security forbids it.
func namespaceObject(namespace string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}
}

func secret(namespace, token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: map[string]string{tokenFile: token}}
}

// daemonSet runs an agent on every real node, tainted ones included. It has no privilege beside the
// read-only mount: every user may read counters.
func daemonSet(namespace, image string) *appsv1.DaemonSet {
	labels := map[string]string{Label: "yes"}
	directory, mode, recursively := corev1.HostPathDirectory, int32(0o440), corev1.RecursiveReadOnlyIfPossible
	pull := corev1.PullIfNotPresent
	if strings.HasPrefix(image, "localhost/") { // a node has no registry there
		pull = corev1.PullNever
	}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64(1)),
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, Affinity: cluster.OnRealNodes(),
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)), FSGroup: new(int64(user)),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{
					Name: name, Image: image, ImagePullPolicy: pull,
					Args: []string{"node", "--listen", "127.0.0.1:" + strconv.Itoa(port), "--token-file", tokenDir + "/" + tokenFile, "--cgroups", groupsDir},
					Resources: corev1.ResourceRequirements{
						// The request is ten times an application's request, and with it the agent's share of a busy node: it
						// must wake up at the edges of slices.
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
						Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
					},
					VolumeMounts: []corev1.VolumeMount{
						{Name: "cgroups", MountPath: groupsDir, ReadOnly: true, RecursiveReadOnly: &recursively},
						{Name: "token", MountPath: tokenDir, ReadOnly: true},
					},
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
						Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				}},
				Volumes: []corev1.Volume{
					{Name: "cgroups", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: hostGroups, Type: &directory}}},
					{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: &mode}}},
				},
			}},
		},
	}
}
