package cluster

import (
	"cmp"
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

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/strict"
)

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
