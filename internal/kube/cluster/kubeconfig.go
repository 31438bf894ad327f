package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// load finds how to reach the cluster, as kubectl does, and the name of the context.
func load(o Options) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	rules.Warner = func(error) {} // files that are missing are told of below, once
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
			return nil, "", &Error{"use the pod's service account", err, ""}
		}
	}
	name := o.Context
	if name == "" {
		name = raw.CurrentContext
	}
	if err := checkContext(raw, name, rules); err != nil {
		return nil, "", err
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, name, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if err != nil {
		return nil, "", &Error{"use context " + name, err, "look at it with `kubectl config view --context " + name + "`"}
	}
	return tuned(config), name, nil
}

func fileError(err error) error {
	hint := "it is not a kubeconfig: `kubectl config view` shows what kubectl makes of it"
	if errors.Is(err, fs.ErrNotExist) {
		hint = "name a kubeconfig with --kubeconfig or $KUBECONFIG"
	} else if errors.Is(err, fs.ErrPermission) {
		hint = "the file belongs to somebody else, or its mode keeps you out"
	}
	return &Error{"read kubeconfig", err, hint}
}

// checkContext says what is wrong with a context before client-go fills the gap with localhost:8080.
func checkContext(raw *api.Config, name string, rules *clientcmd.ClientConfigLoadingRules) error {
	names := slices.Sorted(maps.Keys(raw.Contexts))
	read := strings.Join(files(rules), ", ")
	switch _, ok := raw.Contexts[name]; {
	case len(names) == 0:
		return &Error{"find a cluster", fmt.Errorf("no context in %s", read), "name a kubeconfig with --kubeconfig or $KUBECONFIG; `tare cluster --help` says how to come by a cluster"}
	case name == "":
		return &Error{"find a cluster", fmt.Errorf("%s names no current context", read), "choose one with --context: " + strings.Join(names, ", ")}
	case !ok:
		hint := "contexts there are: " + strings.Join(names, ", ")
		if near, found := strict.Nearest(name, names); found {
			hint = "did you mean " + near + "?"
		}
		return &Error{"find context " + name, fmt.Errorf("not in %s", read), hint}
	}
	context := raw.Contexts[name]
	if _, ok := raw.Clusters[context.Cluster]; !ok {
		return &Error{"use context " + name, fmt.Errorf("it names cluster %q, which %s does not describe", context.Cluster, read), ""}
	}
	if _, ok := raw.AuthInfos[context.AuthInfo]; !ok && context.AuthInfo != "" {
		return &Error{"use context " + name, fmt.Errorf("it names user %q, which %s does not describe", context.AuthInfo, read), ""}
	}
	return nil
}

// files are those that are read, those that are not there left out unless none is.
func files(rules *clientcmd.ClientConfigLoadingRules) []string {
	all := rules.GetLoadingPrecedence()
	if rules.ExplicitPath != "" {
		all = []string{rules.ExplicitPath}
	}
	there := slices.DeleteFunc(slices.Clone(all), func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
	if len(there) == 0 {
		return all
	}
	return there
}

// tuned takes away client-go's own limit on requests: tare asks seldom, and a wait for its turn would count as the server's.
func tuned(config *rest.Config) *rest.Config {
	config.QPS = -1
	config.UserAgent = FieldManager
	config.WarningHandler = rest.NoWarnings{}
	return config
}

func gitVersion(body []byte) (string, error) {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &v); err != nil || v.GitVersion == "" {
		return "", fmt.Errorf("the answer to /version is not that of a Kubernetes API server: %.80q", body)
	}
	return v.GitVersion, nil
}
