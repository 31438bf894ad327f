package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
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
	b, err := metricsOf(ctx, p)
	if err != nil {
		return nil // it has ended, which is told elsewhere
	}
	return os.WriteFile(filepath.Join(d.spec.Provenance, p.name+"-metrics.txt"), b, 0o600)
}

// metricsOf reads a pod's metrics in the text format of Prometheus.
func metricsOf(ctx context.Context, p *pod) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, rootURL(p.api)+"metrics", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
}

// stageMetric is the histogram of an adder's own times, by route and stage.
const stageMetric = "server_response_time"

// StageTimes implements [platform.StageTimer].
func (d *deployment) StageTimes(ctx context.Context) ([]platform.StageTime, error) {
	var all []platform.StageTime
	for _, pods := range d.pods {
		for _, p := range pods {
			if p.beside == nil {
				continue
			}
			b, err := metricsOf(ctx, p)
			if err == nil {
				all, err = addStages(all, b)
			}
			if err != nil {
				return nil, fmt.Errorf("read the times of %s: %w", p.name, err)
			}
		}
	}
	return all, nil
}

// addStages adds the sums of one server's histogram to those of others.
func addStages(all []platform.StageTime, text []byte) ([]platform.StageTime, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for _, m := range families[stageMetric].GetMetric() {
		t := platform.StageTime{Count: int64(m.GetHistogram().GetSampleCount()), Seconds: m.GetHistogram().GetSampleSum()}
		for _, label := range m.GetLabel() {
			switch label.GetName() {
			case "route":
				t.Route = pathOf(label.GetValue())
			case "stage":
				t.Stage = label.GetValue()
			}
		}
		i := slices.IndexFunc(all, func(o platform.StageTime) bool { return o.Route == t.Route && o.Stage == t.Stage })
		if i < 0 {
			all = append(all, t)
			continue
		}
		all[i].Count += t.Count
		all[i].Seconds += t.Seconds
	}
	return all, nil
}

// pathOf is the path of a route by its label.
func pathOf(label string) string {
	for _, r := range app.AdderRoutes() {
		if r.Server == label {
			return r.Path
		}
	}
	return label
}
