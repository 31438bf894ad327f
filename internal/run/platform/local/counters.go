package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

type counterNames struct {
	mesh.Counters
	// joint: the pod has several listeners, and one counter has the requests of all.
	joint bool
}

// counterNames returns the names of a pod's counters. With a process for each listener they begin with the container.
func (p *pod) counterNames() (counterNames, error) {
	local := p.local
	c, err := local.Counters(p.sidecar)
	names := counterNames{Counters: c}
	if err != nil || !local.Verify.Counts() {
		return names, err
	}
	if !local.Sidecar.PerListener() {
		all := []string{}
		if p.sidecar.Inbound != nil {
			all = append(all, c.Inbound)
		}
		for _, o := range c.Outbound {
			all = append(all, o.Sent)
		}
		slices.Sort(all)
		names.joint = len(slices.Compact(slices.Clone(all))) < len(all)
		return names, nil
	}
	prefix := func(container string, counters ...*string) {
		for _, name := range counters {
			if *name != "" {
				*name = container + " " + *name
			}
		}
	}
	prefix(p.proxy(), &names.Inbound, &names.InboundSent, &names.InboundHandshakes, &names.Denied)
	for i := range names.Outbound {
		o := &names.Outbound[i]
		prefix(p.outboundContainer(o.Service), &o.Sent, &o.Received, &o.Handshakes, &o.Retries, &o.Timeouts)
	}
	return names, nil
}

func (n counterNames) all() (all []string) {
	all = append(all, n.Inbound, n.InboundSent, n.InboundHandshakes, n.Denied)
	for _, o := range n.Outbound {
		all = append(all, o.Sent, o.Received, o.Handshakes, o.Retries, o.Timeouts)
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// counters reads the counters of a pod's sidecar by their names.
func (p *pod) counters(ctx context.Context) (map[string]int64, error) {
	names, err := p.counterNames()
	if err != nil {
		return nil, err
	}
	if !p.local.Sidecar.PerListener() {
		return p.sources[p.proxy()](ctx, names.all())
	}
	all := map[string]int64{}
	for _, container := range slices.Sorted(maps.Keys(p.sources)) {
		var own []string
		for _, name := range names.all() {
			if of, name, _ := strings.Cut(name, " "); of == container {
				own = append(own, name)
			}
		}
		values, err := p.sources[container](ctx, own)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", container, err)
		}
		for name, n := range values {
			all[container+" "+name] = n
		}
	}
	return all, nil
}

// counters reads the counters of a process. names are the needed ones.
type counters func(ctx context.Context, names []string) (map[string]int64, error)

// adminAddress chooses the address of a process's admin interface. A restarted process keeps it.
func (px *proxies) adminAddress(p *pod, container string) (string, error) {
	if p.admins[container] == "" {
		port, err := px.layout.addresses.choose(p.ip)
		if err != nil {
			return "", err
		}
		p.admins[container] = net.JoinHostPort(p.ip.String(), strconv.Itoa(port))
	}
	return p.admins[container], nil
}

// counterSource returns the source of a process's counters, nil for none.
func (px *proxies) counterSource(one sidecarProcess) (counters, error) {
	local := px.layout.spec.Mesh.Local
	source := local.Sidecar.Counters
	if source == nil {
		if local.Sidecar.ReadyKind() != mesh.ReadyAdmin {
			return nil, nil
		}
		return (&admin{socket: one.context.AdminPath, statistics: local.Verify.Statistics}).counters, nil
	}
	url, socket, err := source.Render(one.context)
	if err != nil {
		return nil, err
	}
	read := func(ctx context.Context) ([]byte, error) { return get(ctx, socket, url, adminTimeout) }
	parse := prometheusValues
	switch source.Format {
	case mesh.CountersEnvoy:
		a := &admin{socket: socket, base: url, statistics: local.Verify.Statistics}
		if socket != "" {
			a.base = ""
		}
		return a.counters, nil
	case mesh.CountersHAProxy:
		parse = func(text []byte, _ []string) (map[string]int64, error) { return haproxyValues(text) }
		if url == "" {
			read = func(ctx context.Context) ([]byte, error) { return command(ctx, socket, "show stat") }
		}
	case mesh.CountersNginx:
		reads := int64(0) // requests for the page itself
		parse = func(text []byte, _ []string) (map[string]int64, error) {
			reads++
			values, err := nginxValues(text)
			if err == nil {
				values["requests"] -= reads
			}
			return values, err
		}
	}
	return func(ctx context.Context, names []string) (map[string]int64, error) {
		text, err := read(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the sidecar's counters at %s: %w", cmp.Or(url, socket), err)
		}
		return parse(text, names)
	}, nil
}

// command sends a line to a Unix socket and returns the answer.
func command(ctx context.Context, socket, line string) ([]byte, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(adminTimeout)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(conn, maxAdmin))
}

// prometheusValues reads Prometheus' text format. It sums for each name, such as requests_total{server="a"}, the series with
// its labels. A counter without a series is 0: its first request makes the series.
func prometheusValues(text []byte, names []string) (map[string]int64, error) {
	values, labels := map[string]int64{}, map[string]map[string]string{}
	families := map[string][]string{} // the names of a family
	for _, name := range names {
		family, wanted, _, err := scrape.ParseSeries(name)
		if err != nil {
			return nil, fmt.Errorf("read the sidecar's counters: the name %s: %w", name, err)
		}
		values[name], labels[name], families[family] = 0, wanted, append(families[family], name)
	}
	sums := map[string]float64{}
	for s, err := range scrape.Samples(text, slices.Collect(maps.Keys(families))...) {
		if err != nil {
			return nil, fmt.Errorf("read the sidecar's counters: %w", err)
		}
		for _, name := range families[s.Name] {
			if !contains(s.Labels, labels[name]) {
				continue
			}
			if !(s.Value >= 0) || s.Value > math.MaxInt64/2 {
				return nil, fmt.Errorf("read the sidecar's counters: %.80s is %v", name, s.Value)
			}
			sums[name] += s.Value
		}
	}
	for name, n := range sums {
		values[name] = int64(n)
	}
	return values, nil
}

// contains reports whether all has every one of the labels.
func contains(all, labels map[string]string) bool {
	for name, value := range labels {
		if all[name] != value {
			return false
		}
	}
	return true
}

// haproxyValues reads HAProxy's CSV, whose counters are named proxy.server.field.
func haproxyValues(text []byte) (map[string]int64, error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(bytes.TrimSpace(text), []byte("# "))))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil || len(rows) == 0 || len(rows[0]) < 2 || rows[0][0] != "pxname" {
		return nil, fmt.Errorf("read the sidecar's counters: the answer is not HAProxy's CSV: %.80q", text)
	}
	values := map[string]int64{}
	for _, row := range rows[1:] {
		for i := 2; i < min(len(row), len(rows[0])); i++ {
			if n, err := strconv.ParseInt(row[i], 10, 64); err == nil {
				values[row[0]+"."+row[1]+"."+rows[0][i]] = n
			}
		}
	}
	return values, nil
}

var stubStatus = regexp.MustCompile(`server accepts handled requests\s+(\d{1,18}) (\d{1,18}) (\d{1,18})`)

// nginxValues reads the page of nginx's stub_status.
func nginxValues(text []byte) (map[string]int64, error) {
	m := stubStatus.FindSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("read the sidecar's counters: the answer is not a page of stub_status: %.80q", text)
	}
	values := map[string]int64{}
	for i, name := range []string{"accepts", "handled", "requests"} {
		n, err := strconv.ParseInt(string(m[i+1]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the sidecar's counters: %w", err)
		}
		values[name] = n
	}
	return values, nil
}
