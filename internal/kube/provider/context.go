package provider

import (
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/regular"
)

func hasContext(path, name string) (bool, error) {
	config, err := readKubeconfig(path)
	return err == nil && config.Contexts[name] != nil, err
}

// addContext copies the current context of a file to a kubeconfig, under a name for context, cluster and user, and
// makes it the current one, as the programs of other providers do.
func addContext(kubeconfig, file, name string) error {
	from, err := readKubeconfig(file)
	if err != nil {
		return err
	}
	current := from.Contexts[from.CurrentContext]
	if current == nil || from.Clusters[current.Cluster] == nil || from.AuthInfos[current.AuthInfo] == nil {
		return fmt.Errorf("kubeconfig %s has no complete current context", file)
	}
	config, err := readKubeconfig(kubeconfig)
	if err != nil {
		return err
	}
	config.Clusters[name] = from.Clusters[current.Cluster]
	config.AuthInfos[name] = from.AuthInfos[current.AuthInfo]
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return writeKubeconfig(kubeconfig, config)
}

// removeContext removes a context with its cluster and user, unless other contexts use these.
func removeContext(kubeconfig, name string) error {
	config, err := readKubeconfig(kubeconfig)
	if err != nil {
		return err
	}
	gone := config.Contexts[name]
	if gone == nil {
		return nil // the provider's program removed it
	}
	delete(config.Contexts, name)
	clusterUsed, userUsed := false, false
	for _, c := range config.Contexts {
		clusterUsed = clusterUsed || c.Cluster == gone.Cluster
		userUsed = userUsed || c.AuthInfo == gone.AuthInfo
	}
	if !clusterUsed {
		delete(config.Clusters, gone.Cluster)
	}
	if !userUsed {
		delete(config.AuthInfos, gone.AuthInfo)
	}
	if config.CurrentContext == name {
		config.CurrentContext = ""
	}
	return writeKubeconfig(kubeconfig, config)
}

// maxKubeconfig bounds a kubeconfig, in bytes.
const maxKubeconfig = 16 << 20

// readKubeconfig reads a file. Without one the result is empty.
func readKubeconfig(path string) (*api.Config, error) {
	text, err := regular.ReadFile(path, maxKubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return api.NewConfig(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return nil, hint.New("`kubectl config view` prints kubectl's reading of it", "read kubeconfig %s: %w", path, err)
	}
	return config, nil
}

func writeKubeconfig(path string, config *api.Config) error {
	b, err := clientcmd.Write(*config)
	if err == nil {
		err = outfile.WriteFile(path, b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}
