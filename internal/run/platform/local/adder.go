package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// adderContainer is the sidecar that an adder's routes call.
const adderContainer = "adder"

// startAdder starts the sidecar that an adder calls, and returns the arguments with its addresses.
func (as *applications) startAdder(ctx context.Context, p *pod) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, fmt.Errorf("start %s/%s: %w", p.name, adderContainer, err)
	}
	rest, err := listen(p.ip)
	if err != nil {
		return fail(err)
	}
	defer rest.Close()
	rpc, err := listen(p.ip)
	if err != nil {
		return fail(err)
	}
	defer rpc.Close()
	sockets, err := descriptors(rest, rpc)
	if err != nil {
		return fail(err)
	}
	defer closeAll(sockets)
	stem := as.workspace.runtime.file(strconv.Itoa(as.layout.addresses.number()))
	unix := []string{"--rest-socket", stem + "-rest.sock", "--grpc-socket", stem + "-grpc.sock"}
	addresses := append([]string{"--rest", rest.Addr().String(), "--grpc", rpc.Addr().String()}, unix...)
	cmd := proc.Command{
		Path: as.agent, Args: append([]string{"sidecar", "--rest", "fd:3", "--grpc", "fd:4"}, unix...), Files: sockets,
		Log: filepath.Join(as.workspace.provenance, p.name+"-"+adderContainer+".log"),
	}
	printed := cmd
	printed.Args, printed.Files = append([]string{"sidecar"}, addresses...), nil
	process, err := as.processes.runIn(ctx, p, adderContainer, cmd, printed, func(context.Context) error {
		return fmt.Errorf("restart %s: %w: its sockets ended with it", p.name+"/"+adderContainer, errors.ErrUnsupported)
	})
	if err != nil {
		return nil, err
	}
	p.beside = &pod{name: p.name + "/" + adderContainer, service: p.service, protocol: app.HTTP1, ip: p.ip, api: rest.Addr().(*net.TCPAddr).AddrPort()}
	rest.Close()
	rpc.Close()
	closeAll(sockets)
	return addresses, awaitReady(ctx, p.beside.name, process, func(ctx context.Context) error { return answers(ctx, p.beside.api) })
}
