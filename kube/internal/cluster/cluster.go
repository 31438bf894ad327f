// Package cluster connects to one Kubernetes cluster. It applies, waits for,
// lists and deletes objects, explains why they are not ready, and forwards
// ports of pods. It does not depend on meshes, services or trials.
//
// Every call takes a context, and only its deadline ends the call. A request
// that the API server does not answer is repeated until then, so that a trial
// survives a restart of the control plane.
package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
)

// connectTimeout bounds the first request if the caller's context has no deadline.
const connectTimeout = 15 * time.Second

// Options select a cluster, and whether to change it.
type Options struct {
	// Kubeconfig is the file to read. If empty, the files of $KUBECONFIG, then ~/.kube/config, then the
	// service account of the pod are used, as kubectl does.
	Kubeconfig string
	// Context is the context in it, empty for the current one.
	Context string
	// Recorder makes a dry run: no request is sent, not even to check that the cluster exists.
	// Commands and manifests are added to the recorder instead.
	Recorder *Recorder
}

// Cluster is a connection to one cluster. It is safe for concurrent use.
type Cluster struct {
	context  string
	config   *rest.Config
	recorder *Recorder // nil unless it is a dry run

	typed     kubernetes.Interface
	requests  requests
	resources *resources
	explainer *explainer
}

// Connect reads the kubeconfig and requests the cluster's version. Its error has a hint: no kubeconfig, no such
// context, server not reachable, credentials refused.
func Connect(ctx context.Context, o Options) (*Cluster, error) {
	if o.Recorder != nil {
		o.Recorder.context = o.Context
		r := requests{context: o.Context, dryRun: true}
		return &Cluster{context: o.Context, recorder: o.Recorder, requests: r, resources: &resources{requests: r}}, nil
	}
	silenceKlog()
	config, name, err := load(o)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(config, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if _, err := c.Version(ctx); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name(), err)
	}
	return c, nil
}

func newCluster(config *rest.Config, name string) (*Cluster, error) {
	c := &Cluster{context: name, config: config, requests: requests{context: name, server: config.Host}}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name(), err)
	}
	if config.ExecProvider != nil {
		with := *transport
		with.Transport = &credentials{next: transport.Transport, now: time.Now}
		transport = &with
	}
	if c.typed, err = kubernetes.NewForConfigAndClient(config, transport); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name(), err)
	}
	r := &resources{requests: c.requests, discovery: c.typed.Discovery()}
	if r.dynamic, err = dynamic.NewForConfigAndClient(config, transport); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name(), err)
	}
	if r.metadata, err = metadata.NewForConfigAndClient(config, transport); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name(), err)
	}
	r.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(r.discovery))
	c.resources, c.explainer = r, &explainer{typed: c.typed, resources: r}
	return c, nil
}

// silenceKlog discards client-go's own log, which would go to standard error. Relevant failures are returned as errors.
// It runs once: open connections read the logger.
var silenceKlog = sync.OnceFunc(func() { klog.SetLogger(logr.FromSlogHandler(slog.DiscardHandler)) })

// Name identifies the cluster in messages: the kubeconfig's context and the server.
func (c *Cluster) Name() string {
	if c.config == nil {
		return "cluster " + c.context
	}
	return fmt.Sprintf("cluster %s (%s)", c.context, c.config.Host)
}

// Context is the name of the context in the kubeconfig, empty inside a pod.
func (c *Cluster) Context() string { return c.context }

// DryRun reports whether the cluster is left unchanged. Typed and Config are nil then.
func (c *Cluster) DryRun() bool { return c.recorder != nil }

// Recorder returns the recorder of a dry run. Otherwise it is nil, and recording does nothing.
func (c *Cluster) Recorder() *Recorder { return c.recorder }

// Typed is client-go's client, for requests without a method here. Wrap its calls in [Cluster.Retry].
func (c *Cluster) Typed() kubernetes.Interface { return c.typed }

// Config is a copy of the connection's configuration, for libraries that open their own connections.
func (c *Cluster) Config() *rest.Config {
	if c.config == nil {
		return nil
	}
	return rest.CopyConfig(c.config)
}

// Retry calls f until it succeeds, fails for good, or ctx ends. Failures that are retried are connections refused or
// lost, timeouts, and statuses 429 and 5xx. f must be safe to repeat and use its context, which bounds one attempt.
// op names the operation in the error ("read pods of shop"), which has a hint and the time spent retrying.
// If ctx has no deadline, the limit is one minute.
func (c *Cluster) Retry(ctx context.Context, op string, f func(context.Context) error) error {
	return c.requests.retry(ctx, op, f)
}

// Retried returns the result of f, which it calls as [Cluster.Retry] does.
func Retried[T any](ctx context.Context, c *Cluster, op string, f func(context.Context) (T, error)) (got T, err error) {
	err = c.Retry(ctx, op, func(ctx context.Context) (err error) {
		got, err = f(ctx)
		return err
	})
	return got, err
}

// Version is the API server's, such as v1.36.3.
func (c *Cluster) Version(ctx context.Context) (string, error) {
	return Retried(ctx, c, "get the version", func(ctx context.Context) (string, error) {
		body, err := c.typed.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return "", err
		}
		return gitVersion(body)
	})
}

func gitVersion(body []byte) (string, error) {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &v); err != nil || v.GitVersion == "" {
		return "", fmt.Errorf("/version did not return a Kubernetes API server's version: %.80q", body)
	}
	return v.GitVersion, nil
}

// load returns the connection's configuration, by kubectl's rules, and the name of the context.
func load(o Options) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	rules.Warner = func(error) {} // checkContext reports missing files, once
	if err := readable(rules); err != nil {
		return nil, "", fileError(err)
	}
	raw, err := rules.Load()
	if err != nil {
		return nil, "", fileError(err)
	}
	if api.IsConfigEmpty(raw) && o.Kubeconfig == "" && o.Context == "" {
		config, err := rest.InClusterConfig()
		if err == nil {
			return tuned(config), "", nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", failedTo("use the pod's service account", err, "")
		}
	}
	name := cmp.Or(o.Context, raw.CurrentContext)
	if err := checkContext(raw, name, rules); err != nil {
		return nil, "", err
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, name, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if err != nil {
		return nil, "", failedTo("use context "+name, err, "print it with `kubectl config view --context "+name+"`")
	}
	return tuned(config), name, nil
}

// maxKubeconfig bounds a kubeconfig, in bytes.
const maxKubeconfig = 16 << 20

// readable refuses kubeconfigs that client-go would read without end.
func readable(rules *clientcmd.ClientConfigLoadingRules) error {
	for _, path := range files(rules) {
		f, err := regular.Open(path, maxKubeconfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue // checkContext reports it
		}
		if err != nil {
			return err
		}
		_ = f.Close()
	}
	return nil
}

func fileError(err error) error {
	text := "it is not a kubeconfig: `kubectl config view` prints kubectl's reading of it"
	if errors.Is(err, regular.ErrNotRegular) || errors.Is(err, regular.ErrTooLarge) {
		text = hint.Of(err)
	} else if errors.Is(err, fs.ErrNotExist) {
		text = "name a kubeconfig with --kubeconfig or $KUBECONFIG"
	} else if errors.Is(err, fs.ErrPermission) {
		text = "you have no permission to read the file: check its owner and mode"
	}
	return failedTo("read kubeconfig", err, text)
}

// checkContext reports a missing context or entry, for which client-go would use localhost:8080.
func checkContext(raw *api.Config, name string, rules *clientcmd.ClientConfigLoadingRules) error {
	names := slices.Sorted(maps.Keys(raw.Contexts))
	read := strings.Join(files(rules), ", ")
	switch _, ok := raw.Contexts[name]; {
	case len(names) == 0:
		why := fmt.Errorf("no context in %s", read)
		if missing := slices.DeleteFunc(slices.Clone(files(rules)), exists); len(missing) > 0 && rules.ExplicitPath == "" && os.Getenv("KUBECONFIG") != "" {
			why = fmt.Errorf("$KUBECONFIG names %s, which does not exist", strings.Join(missing, ", "))
		}
		return failedTo("find a cluster", why, "name a kubeconfig with --kubeconfig or $KUBECONFIG; `tare cluster --help` lists ways to get a cluster")
	case name == "":
		return failedTo("find a cluster", fmt.Errorf("%s names no current context", read), "choose one with --context: "+strings.Join(names, ", "))
	case !ok:
		text := "existing contexts: " + strings.Join(names, ", ")
		if near, found := strict.Nearest(name, names); found {
			text = "did you mean " + near + "?"
		}
		return failedTo("find context "+name, fmt.Errorf("not in %s", read), text)
	}
	context := raw.Contexts[name]
	if _, ok := raw.Clusters[context.Cluster]; !ok {
		return failedTo("use context "+name, fmt.Errorf("its cluster %q is not defined in %s", context.Cluster, read), "")
	}
	if _, ok := raw.AuthInfos[context.AuthInfo]; !ok && context.AuthInfo != "" {
		return failedTo("use context "+name, fmt.Errorf("its user %q is not defined in %s", context.AuthInfo, read), "")
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// files are the kubeconfig files that exist, or all that were searched if none exists.
func files(rules *clientcmd.ClientConfigLoadingRules) []string {
	all := rules.GetLoadingPrecedence()
	if rules.ExplicitPath != "" {
		all = []string{rules.ExplicitPath}
	}
	existing := slices.DeleteFunc(slices.Clone(all), func(path string) bool { return !exists(path) })
	if len(existing) == 0 {
		return all
	}
	return existing
}

// tuned removes client-go's rate limit. tare sends few requests, and its waiting time would be counted as the server's.
func tuned(config *rest.Config) *rest.Config {
	config.QPS = -1
	config.UserAgent = FieldManager
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// Node is one node and its allocatable resources.
type Node struct {
	Name   string
	CPUs   int     // capacity, logical processors
	Cores  float64 // allocatable CPU
	Memory int64   // allocatable, bytes
	BootID string  // of its kernel: the same for nodes that are containers of one machine
	Ready  bool    // its kubelet reports that it can run pods
}

// typeLabel is the label of simulated nodes, which have no kernel, and simulatedTypes its values: KWOK's and virtual-kubelet's.
const (
	typeLabel = "type"
	kwokType  = "kwok"
	kwokTaint = "kwok.x-k8s.io/node" // keeps other pods away
)

var simulatedTypes = []string{kwokType, "virtual-kubelet"}

// RealNodes selects the nodes that are not simulated.
func RealNodes() metav1.ListOptions { return nodesWhose(" notin ") }

func nodesWhose(is string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: typeLabel + is + "(" + strings.Join(simulatedTypes, ",") + ")"}
}

// OnRealNodes requires a node that is not simulated.
func OnRealNodes() *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: typeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: simulatedTypes}}}}}}}
}

// OnKWOKNodes places a pod on the nodes of KWOK, where no program runs. Those of virtual-kubelet may run it elsewhere.
func OnKWOKNodes(spec *corev1.PodSpec) {
	spec.NodeSelector = map[string]string{typeLabel: kwokType}
	spec.Tolerations = []corev1.Toleration{{Key: kwokTaint, Operator: corev1.TolerationOpExists}}
}

// KWOKPods returns the number of pods for which the nodes of KWOK have room, those that exist included.
func (c *Cluster) KWOKPods(ctx context.Context) (room int, err error) {
	all, err := c.listNodes(ctx, "list the simulated nodes", metav1.ListOptions{LabelSelector: typeLabel + "=" + kwokType})
	for _, n := range all {
		if IsReady(n) && !n.Spec.Unschedulable {
			room += int(n.Status.Allocatable.Pods().Value())
		}
	}
	return room, err
}

// SimulatedNodes are the names of the simulated nodes, none without permission to list nodes.
func (c *Cluster) SimulatedNodes(ctx context.Context) (map[string]bool, error) {
	all, err := c.listNodes(ctx, "list the simulated nodes", nodesWhose(" in "))
	if IsForbidden(err) {
		err = nil
	}
	return lists.Set(all, func(n corev1.Node) string { return n.Name }), err
}

// Nodes lists the real nodes.
func (c *Cluster) Nodes(ctx context.Context) ([]Node, error) {
	all, err := c.listNodes(ctx, "list the nodes", RealNodes())
	return lists.Map(all, func(n corev1.Node) Node {
		return Node{Name: n.Name, CPUs: int(n.Status.Capacity.Cpu().Value()),
			Cores: n.Status.Allocatable.Cpu().AsApproximateFloat64(), Memory: n.Status.Allocatable.Memory().Value(),
			BootID: n.Status.NodeInfo.BootID, Ready: IsReady(n)}
	}), err
}

func (c *Cluster) listNodes(ctx context.Context, op string, o metav1.ListOptions) ([]corev1.Node, error) {
	list, err := Retried(ctx, c, op, func(ctx context.Context) (*corev1.NodeList, error) { return c.typed.CoreV1().Nodes().List(ctx, o) })
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// TakesPods reports whether a pod without tolerations can be scheduled on a node.
func TakesPods(n corev1.Node) bool {
	return !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

// IsReady reports whether the kubelet of a node reports that it can run pods.
func IsReady(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// isSilent reports whether the kubelet of a node has not answered for some time: it confirms the end of no pod.
func isSilent(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	}) || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable })
}

// SystemNamespace exists on every cluster for as long as the cluster does.
const SystemNamespace = "kube-system"

// systemPriorities are the priority classes of a cluster's own components, in any namespace.
var systemPriorities = []string{"system-node-critical", "system-cluster-critical"}

// IsSystem reports whether a pod is one of the cluster's own components, by its namespace or its priority class.
func IsSystem(pod *corev1.Pod) bool {
	return slices.Contains(systemPriorities, pod.Spec.PriorityClassName) || manifest.IsSystemNamespace(pod.Namespace)
}
