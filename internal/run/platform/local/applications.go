package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// applications are the programs that play the services.
type applications struct {
	layout    *layout
	workspace *workspace
	processes *processes
	agent     string              // path of tare-agent
	edit      func(*app.Instance) // changes the configuration of an application, nil but in tests
}

func (as *applications) start(ctx context.Context, p *pod, s app.Service, listener *net.TCPListener) error {
	instance := as.instance(p, s)
	config, err := json.MarshalIndent(instance, "", "  ")
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	path := as.workspace.provenance.Path(p.name + "-app.json")
	if err := os.WriteFile(path, append(config, '\n'), 0o600); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	api, err := listen(p.ip)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer api.Close()
	p.api = api.Addr().(*net.TCPAddr).AddrPort()
	return as.run(ctx, p, s, []string{"serve", "--config", path, "--source", p.ip.String()}, []string{"--token-file", as.workspace.tokenFile()}, listener, api)
}

// run starts the program of an application on its listeners. The secret arguments are not
// recorded. The token is removed with the deployment, and a pasted command works without one.
func (as *applications) run(ctx context.Context, p *pod, s app.Service, args, secret []string, listener, api *net.TCPListener) error {
	sockets, err := descriptors(listener, api)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer closeAll(sockets)
	cmd := proc.Command{
		Path:  as.agent,
		Args:  slices.Concat(args, secret, []string{"--listen", "fd:3", "--admin", "fd:4"}),
		Files: sockets,
		Log:   as.workspace.provenance.Path(p.name + "-app.log"),
	}
	printed := cmd
	printed.Args = slices.Concat(args, []string{"--listen", p.app.String(), "--admin", p.api.String()})
	printed.Files = nil
	process, err := as.processes.runIn(ctx, p, "app", cmd, printed, func(ctx context.Context) error {
		again, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(p.app))
		if err != nil {
			return fmt.Errorf("restart %s: %w", p.name, err)
		}
		defer again.Close()
		return as.start(ctx, p, s, again)
	})
	if err != nil {
		return err
	}
	// From here on a dead application refuses connections.
	listener.Close()
	api.Close()
	closeAll(sockets)
	return awaitReady(ctx, p.name+"/app", process, func(ctx context.Context) error { return answers(ctx, p.api) })
}

// instance is the configuration of the program that plays a service in one pod.
func (as *applications) instance(p *pod, s app.Service) app.Instance {
	i := as.layout.spec.Instance(s, func(service string) []string { return as.layout.urls(p, service) })
	for k := range i.Calls {
		if callee, ok := as.layout.spec.Topology.Service(i.Calls[k].Service); ok {
			i.Calls[k].Host = as.layout.spec.OwnHost(callee)
		}
	}
	if as.edit != nil {
		as.edit(&i)
	}
	return i
}

// descriptors are copies of the listeners' sockets, for a process to inherit.
func descriptors(listeners ...*net.TCPListener) ([]*os.File, error) {
	var files []*os.File
	for _, l := range listeners {
		f, err := l.File()
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// answers requests the health of an application.
func answers(ctx context.Context, a netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	status, err := statusOf(ctx, rootURL(a)+"readyz")
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("its health is %d %s", status, http.StatusText(status))
	}
	return err
}
