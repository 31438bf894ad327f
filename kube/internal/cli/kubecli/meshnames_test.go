package kubecli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

// Every command of a mesh with every mesh that comes with tare and with names of none: without a cluster all fail and none
// panics, and mistakes in the command line are reported before a connection.
func TestMeshCommandsWithEveryMesh(t *testing.T) {
	server := &countingServer{}
	server.listen(t)
	for _, name := range append(mesh.Names(), "absent", "") {
		d, err := mesh.Load(name)
		installable := err == nil && d.Kubernetes != nil && d.Kubernetes.Installable()
		for _, c := range []struct {
			args    []string
			mistake bool // in the command line
			local   bool // it needs no cluster
		}{
			{[]string{"install", name}, !installable, false},
			{[]string{"install", name, "--dry-run", "--charts", t.TempDir()}, !installable, true},
			{[]string{"install", name, "--dry-run", "--gateway"}, true, true},
			{[]string{"verify", name}, err != nil || d.Kubernetes == nil, false},
			{[]string{"uninstall", name}, err != nil || d.Kubernetes == nil, false},
			{[]string{"uninstall", name, "--force"}, err == nil && d.Kubernetes == nil, false},
			{[]string{"verify", name, "--dry-run"}, true, true},
			{[]string{"uninstall", name, "--dry-run"}, true, true},
			{[]string{"list", name}, true, true},
		} {
			connects := !c.mistake && !c.local
			kubeconfig := server.kubeconfig
			if connects { // it would be tried for a long time
				kubeconfig = "/no/such/file"
			}
			before := server.connections.Load()
			_, err := call(t, slices.Concat([]string{"mesh"}, c.args, []string{"--kubeconfig", kubeconfig})...)
			if err == nil {
				t.Errorf("mesh %q succeeds without a cluster", c.args)
			}
			if usage := errors.As(err, new(*hint.UsageError)); c.mistake && !usage {
				t.Errorf("mesh %q is not a mistake in the command line: %v", c.args, err)
			}
			if server.connections.Load() != before {
				t.Errorf("mesh %q connects: %v", c.args, err)
			}
		}
	}
}

// countingServer is a cluster that closes each connection.
type countingServer struct {
	kubeconfig  string
	connections atomic.Int64
}

func (s *countingServer) listen(t *testing.T) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			c.Close()
		}
	}()
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{name: x, cluster: {server: 'http://%s'}}]\nusers: [{name: x, user: {}}]\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n", listener.Addr())
	must.OK(t, os.WriteFile(s.kubeconfig, []byte(text), 0o600))
}
