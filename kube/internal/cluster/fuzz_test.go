package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// FuzzKubeconfig: a kubeconfig gives a server to connect to, or an error. Loading
// runs no program of it.
func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443'}}]\nusers: [{name: u, user: {token: t}}]\n"))
	f.Add([]byte("current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'http://h'}}]\nusers: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/false, interactiveMode: Never}}}]\n"))
	f.Add([]byte("current-context: b\ncontexts: [{name: a, context: {}}]\n"))
	f.Add([]byte("{}"))
	f.Add([]byte("contexts: 5"))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "config")
		must.OK(t, os.WriteFile(path, b, 0o600))
		config, name, err := load(Options{Kubeconfig: path})
		if (config == nil) == (err == nil) {
			t.Errorf("%v, %q, %v", config, name, err)
		}
		if err == nil && config.Host == "" {
			t.Errorf("context %q has no server", name)
		}
	})
}
