package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/app"
	"github.com/tare-mesh/tare/internal/proc"
)

// adderContainer is the sidecar that an adder's routes reach.
const adderContainer = "adder"

// startAdder starts the sidecar that an adder calls, and returns the arguments that lead there.
func (d *deployment) startAdder(ctx context.Context, p *pod) ([]string, error) {
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
	stem := d.runtime.file(strconv.Itoa(d.addresses.number()))
	sides := []string{"--rest-socket", stem + "-rest.sock", "--grpc-socket", stem + "-grpc.sock"}
	ways := append([]string{"--rest", rest.Addr().String(), "--grpc", rpc.Addr().String()}, sides...)
	cmd := proc.Command{
		Path: d.agent, Args: append([]string{"sidecar", "--rest", "fd:3", "--grpc", "fd:4"}, sides...), Files: sockets,
		Log: filepath.Join(d.spec.Provenance, p.name+"-"+adderContainer+".log"),
	}
	printed := cmd
	printed.Args, printed.Files = append([]string{"sidecar"}, ways...), nil
	process, err := d.runIn(ctx, p, adderContainer, cmd, printed, func(context.Context) error {
		return fmt.Errorf("start %s again: %w: its sockets are gone with it", p.name+"/"+adderContainer, errors.ErrUnsupported)
	})
	if err != nil {
		return nil, err
	}
	p.beside = &pod{name: p.name + "/" + adderContainer, service: p.service, protocol: app.HTTP1, ip: p.ip, api: rest.Addr().(*net.TCPAddr).AddrPort()}
	rest.Close()
	rpc.Close()
	closeAll(sockets)
	return ways, d.await(ctx, p.beside.name, process, func(ctx context.Context) error { return answers(ctx, p.beside.api) })
}

// adderFlows are the calls that reach the sidecars of a service's adders.
func (d *deployment) adderFlows(pods []*pod) []flow {
	f := flow{name: "calls at the sidecar of " + pods[0].service, hint: "the routes do not reach the function where they should; see the logs in the trial's provenance directory"}
	for _, p := range pods {
		if p.beside != nil {
			f.parts = append(f.parts, part{pod: p.beside})
		}
	}
	if len(f.parts) == 0 {
		return nil
	}
	for i := range probes {
		u, err := url.Parse(d.entry[i%len(d.entry)])
		if err == nil && u.Path != "/" && u.Path != "/adder" {
			f.want++
		}
	}
	return []flow{f}
}

// keepMetrics writes what the adders say of their own times into provenance/,
// before they are stopped: the whole of the request and the way to the function.
func (d *deployment) keepMetrics(ctx context.Context) error {
	var failed []error
	for _, pods := range d.pods {
		for _, p := range pods {
			if p.beside != nil && p.api.IsValid() {
				failed = append(failed, d.keepMetricsOf(ctx, p))
			}
		}
	}
	return errors.Join(failed...)
}

// maxMetrics bounds what is kept of one adder, bytes.
const maxMetrics = 1 << 20

func (d *deployment) keepMetricsOf(ctx context.Context, p *pod) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, rootURL(p.api)+"metrics", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return nil // it has ended, which is told elsewhere
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return fmt.Errorf("keep the metrics of %s: %w", p.name, err)
	}
	return os.WriteFile(filepath.Join(d.spec.Provenance, p.name+"-metrics.txt"), b, 0o600)
}
