package chart

import (
	"errors"

	ci "helm.sh/helm/v4/pkg/chart"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// restGetter gives Helm tare's connection in place of a kubeconfig.
type restGetter struct {
	cluster   *cluster.Cluster
	namespace string
}

func (g restGetter) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := g.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(client), client, nil), nil
}

func (g restGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	config, err := g.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return memory.NewMemCacheClient(client), nil
}

func (g restGetter) ToRESTConfig() (*rest.Config, error) {
	config := g.cluster.Config()
	if config == nil {
		return nil, errors.New("not connected to a cluster")
	}
	return config, nil
}

// ToRawKubeConfigLoader provides only the default namespace.
func (g restGetter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(*api.NewConfig(), &clientcmd.ConfigOverrides{Context: api.Context{Namespace: g.namespace}})
}

// names are the names of the objects in a YAML stream, until one that cannot be read.
func names(stream []byte) (all []string) {
	objects, _ := cluster.Parse(stream)
	for _, o := range objects {
		all = append(all, o.GetName())
	}
	return all
}

func dependencies(c *v2.Chart) []ci.Dependency {
	var all []ci.Dependency
	for _, d := range c.Metadata.Dependencies {
		all = append(all, d)
	}
	return all
}
