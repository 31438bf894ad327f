// Package cluster speaks with one Kubernetes cluster: it connects, applies and
// deletes objects, waits for what they become and explains what keeps them from
// it, opens connections to pods, reads kubelets, guards clusters that are in use
// and sweeps what dead runs left. It knows nothing of meshes, services or trials.
//
// Every call takes a context, and its deadline is the only one: an API server
// that is away is asked again until then, so that a trial outlives a restart of
// the control plane.
package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"
)

// connectTimeout bounds the first question to a cluster where the caller's context does not.
const connectTimeout = 15 * time.Second

// Options say which cluster, and whether to touch it.
type Options struct {
	// Kubeconfig is the file to read; empty: what $KUBECONFIG lists, then ~/.kube/config, then the
	// service account of the pod tare runs in, as kubectl does.
	Kubeconfig string
	// Context is the context in it; empty: the current one.
	Context string
	// Recorder makes a dry run: nothing is asked or changed, not even whether the cluster is there;
	// what would be done is written down in it.
	Recorder *Recorder
}

// Cluster is a connection to one cluster. It may be used by several goroutines.
type Cluster struct {
	context  string
	config   *rest.Config
	recorder *Recorder

	typed    kubernetes.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
	disco    discovery.CachedDiscoveryInterface
	mapper   meta.ResettableRESTMapper

	guardNamespace string // carries the mark of a disposable cluster
}

// Connect reads the kubeconfig and asks the cluster for its version. The error has a hint: no kubeconfig, no such
// context, nobody there, credentials not accepted.
func Connect(ctx context.Context, o Options) (*Cluster, error) {
	if o.Recorder != nil {
		return &Cluster{context: o.Context, recorder: o.Recorder, guardNamespace: systemNamespace}, nil
	}
	quiet()
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
	c := &Cluster{context: name, config: config, guardNamespace: systemNamespace}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name(), err)
	}
	if c.typed, err = kubernetes.NewForConfigAndClient(config, transport); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name(), err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, transport); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name(), err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, transport); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name(), err)
	}
	c.disco = memory.NewMemCacheClient(c.typed.Discovery())
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(c.disco)
	return c, nil
}

// quiet keeps client-go's own log out of tare's standard error: what matters there comes back as an error. Once, since
// connections that are open read the logger.
var quiet = sync.OnceFunc(func() { klog.SetLogger(logr.FromSlogHandler(slog.DiscardHandler)) })

// Name says which cluster it is, for messages: the kubeconfig's context, and the server.
func (c *Cluster) Name() string {
	if c.config == nil {
		return "cluster " + c.context
	}
	return fmt.Sprintf("cluster %s (%s)", c.context, c.config.Host)
}

// Context is the name of the context in the kubeconfig; empty inside a pod.
func (c *Cluster) Context() string { return c.context }

// Server is the API server's URL; empty in a dry run.
func (c *Cluster) Server() string {
	if c.config == nil {
		return ""
	}
	return c.config.Host
}

// DryRun says that nothing is touched: Typed, Dynamic and Config are nil then.
func (c *Cluster) DryRun() bool { return c.recorder != nil }

// Typed is client-go's client, for reading what has no function here. Wrap its calls in [Cluster.Retry].
func (c *Cluster) Typed() kubernetes.Interface { return c.typed }

// Dynamic is client-go's client for objects of any kind. Wrap its calls in [Cluster.Retry].
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }

// Config is a copy of how to reach the cluster and as whom, for libraries that open connections of their own.
func (c *Cluster) Config() *rest.Config {
	if c.config == nil {
		return nil
	}
	return rest.CopyConfig(c.config)
}

// Version is the API server's, such as v1.36.3.
func (c *Cluster) Version(ctx context.Context) (string, error) {
	var version string
	err := c.Retry(ctx, "ask for the version", func(ctx context.Context) error {
		body, err := c.typed.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return err
		}
		version, err = gitVersion(body)
		return err
	})
	return version, err
}
