package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// startSecond starts the process beside the program of a pod, if it has one, and returns the
// arguments with its addresses.
func (as *applications) startSecond(ctx context.Context, p *pod) ([]string, error) {
	beside := p.program.Beside
	if beside == nil {
		return nil, nil
	}
	fail := func(err error) ([]string, error) {
		return nil, fmt.Errorf("start %s/%s: %w", p.name, beside.Container, err)
	}
	var listeners []*net.TCPListener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	var addresses, inherited, sockets []string
	for i, flag := range beside.Ports {
		l, err := listen(p.ip)
		if err != nil {
			return fail(err)
		}
		listeners = append(listeners, l)
		addresses = append(addresses, "--"+flag, l.Addr().String())
		inherited = append(inherited, "--"+flag, fmt.Sprintf("fd:%d", 3+i))
	}
	stem := as.workspace.runtime.file(strconv.Itoa(as.layout.addresses.number()))
	for _, flag := range beside.Sockets {
		sockets = append(sockets, "--"+flag, stem+"-"+app.SocketName(flag))
	}
	files, err := descriptors(listeners...)
	if err != nil {
		return fail(err)
	}
	defer closeAll(files)
	cmd := proc.Command{
		Path: as.agent, Args: slices.Concat([]string{beside.Command}, inherited, sockets), Files: files,
		Log: as.workspace.provenance.Path(p.name + "-" + beside.Container + ".log"),
	}
	printed := cmd
	printed.Args, printed.Files = slices.Concat([]string{beside.Command}, addresses, sockets), nil
	process, err := as.processes.runIn(ctx, p, beside.Container, cmd, printed, func(context.Context) error {
		return fmt.Errorf("restart %s/%s: %w: its sockets ended with it", p.name, beside.Container, errors.ErrUnsupported)
	})
	if err != nil {
		return nil, err
	}
	p.beside = &pod{name: p.name + "/" + beside.Container, service: p.service, protocol: app.HTTP1, ip: p.ip,
		api: listeners[0].Addr().(*net.TCPAddr).AddrPort()}
	for _, l := range listeners { // from here on a dead process refuses connections
		l.Close()
	}
	closeAll(files)
	return slices.Concat(addresses, sockets), awaitReady(ctx, p.beside.name, process, func(ctx context.Context) error { return answers(ctx, p.beside.api) })
}
