package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/platform"
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

// admin is the admin interface of a sidecar on a Unix socket, as Envoy has it: /ready, /listeners
// and /stats.
type admin struct {
	socket string // empty for a URL
	base   string // of its URLs, empty for a socket
	// statistics is a regular expression of the names that are read, empty for all.
	statistics string
}

// Timeouts of one request. A busy sidecar with thousands of clusters needs seconds for its dump.
const (
	adminTimeout = 5 * time.Second
	dumpTimeout  = 30 * time.Second
)

// adminPause is the time between two requests of a poll.
const adminPause = 5 * time.Millisecond

// maxAdmin is the maximum size of an answer, bytes. A sidecar with a hundred upstreams returns a few megabytes.
const maxAdmin = 64 << 20

func (a *admin) get(ctx context.Context, path string) ([]byte, error) {
	return a.getWithin(ctx, path, adminTimeout)
}

func (a *admin) getWithin(ctx context.Context, path string, timeout time.Duration) ([]byte, error) {
	b, err := get(ctx, a.socket, cmp.Or(strings.TrimSuffix(a.base, "/"), "http://admin")+path, timeout)
	return b, hint.Prefix(err, "get %s from the sidecar", path)
}

// get requests a URL, over a Unix socket unless that is empty, and returns the body of an answer 200.
func get(ctx context.Context, socket, url string, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, body, err := platform.Send(r, overSocket(socket), maxAdmin)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return body, err
}

// overSocket connects to a Unix socket instead of the address of a URL, unless it is empty.
func overSocket(socket string) *http.Transport {
	over := &http.Transport{}
	if socket != "" {
		over.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	return over
}

// ports returns the port of each listener by name, when all workers listen.
func (a *admin) ports(ctx context.Context) (map[string]int, error) {
	if _, err := a.get(ctx, "/ready"); err != nil {
		return nil, err
	}
	b, err := a.get(ctx, "/listeners?format=json")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Listeners []struct {
			Name    string `json:"name"`
			Address struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, fmt.Errorf("read the sidecar's listeners: %w", err)
	}
	ports := map[string]int{}
	for _, l := range answer.Listeners {
		port := l.Address.Socket.Port
		if port < 0 || port > math.MaxUint16 {
			return nil, fmt.Errorf("read the sidecar's listeners: %.80q has port %d", l.Name, port)
		}
		ports[l.Name] = port
	}
	return ports, nil
}

const counterKind = "Counters"

// counters reads every counter by its name.
func (a *admin) counters(ctx context.Context, _ []string) (map[string]int64, error) {
	return a.stats(ctx, counterKind)
}

func (a *admin) gauges(ctx context.Context) (map[string]int64, error) { return a.stats(ctx, "Gauges") }

func (a *admin) stats(ctx context.Context, kind string) (map[string]int64, error) {
	path := "/stats?format=json&type=" + kind
	if a.statistics != "" {
		path += "&filter=" + url.QueryEscape(a.statistics)
	}
	b, err := a.get(ctx, path)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Stats []struct {
			Name  string `json:"name"`
			Value uint64 `json:"value"` // some gauges are hashes of 64 bits
		} `json:"stats"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, fmt.Errorf("read the sidecar's statistics: %w", err)
	}
	values := make(map[string]int64, len(answer.Stats))
	for _, s := range answer.Stats {
		if s.Value > math.MaxInt64 && kind == counterKind {
			return nil, fmt.Errorf("read the sidecar's statistics: counter %.80q is %d", s.Name, s.Value)
		}
		values[s.Name] = int64(s.Value)
	}
	return values, nil
}

// requestCounters implements [platform.Deployment.RequestCounts].
type requestCounters struct {
	layout    *layout
	processes *processes
	sockets   *socketCounts
}

func (rc *requestCounters) RequestCounts(ctx context.Context) ([]balance.Count, error) {
	var reads []func(context.Context) []balance.Count
	for _, s := range rc.layout.spec.Topology.Services {
		for _, p := range rc.layout.pods[s.Name] {
			reads = append(reads, func(ctx context.Context) []balance.Count { return rc.application(ctx, p) })
		}
	}
	if rc.layout.proxied() {
		for _, p := range rc.layout.proxiedPods() {
			reads = append(reads, func(ctx context.Context) []balance.Count { return rc.sidecar(ctx, p) })
		}
	}
	return platform.ReadEach(ctx, startingAtOnce(), reads)
}

type counting struct {
	from balance.Count // task, instance and configuration of all of its counts
	all  []balance.Count
}

// begin begins the counts of a container. They are unknown if it has ended.
func (rc *requestCounters) begin(p *pod, container string) *counting {
	c := &counting{from: balance.Count{By: p.name + "/" + container}}
	switch _, process, err := rc.processes.alive(c.from.By); {
	case err != nil:
		c.from.Unknown = err.Error()
	case process == nil:
		c.from.Unknown = c.from.By + " was ended"
	default:
		c.from.Instance = strconv.Itoa(process.PID)
	}
	return c
}

func (c *counting) known() bool { return c.from.Unknown == "" }

func (c *counting) add(place balance.Place, tally balance.Tally) {
	n := c.from
	n.Place = place
	if c.known() {
		n.Tally = tally
	}
	c.all = append(c.all, n)
}

// miss adds a place whose count is unknown.
func (c *counting) miss(place balance.Place, why string) {
	n := c.from
	n.Place = place
	if c.known() {
		n.Unknown = why
	}
	c.all = append(c.all, n)
}

func (rc *requestCounters) application(ctx context.Context, p *pod) []balance.Count {
	from := rc.begin(p, "app").from
	s, _ := rc.layout.spec.Topology.Service(p.service)
	if p.api.IsValid() {
		return p.serviceAPI("").Counts(ctx, from, s, p.protocol)
	}
	from.Place = balance.Place{Service: s.Name, Point: balance.Served, Unit: platform.UnitOf(p.protocol)}
	return []balance.Count{rc.sockets.count(p, from)}
}

func (rc *requestCounters) sidecar(ctx context.Context, p *pod) []balance.Count {
	c := &sidecarCounting{counting: rc.begin(p, p.proxy())}
	if p.reloads > 0 { // the counters may begin at 0 again
		c.from.Instance = fmt.Sprintf("%s, reload %d", c.from.Instance, p.reloads)
	}
	for _, container := range slices.Sorted(maps.Keys(p.sources)) { // each with a process of its own
		if container != p.proxy() && c.known() {
			other := rc.begin(p, container).from
			c.from.Instance, c.from.Unknown = c.from.Instance+" "+other.Instance, other.Unknown
		}
	}
	names, err := p.counterNames()
	if err == nil && c.known() && len(p.sources) > 0 {
		c.values, err = p.counters(ctx)
	}
	if n, has := c.values[names.InboundHandshakes]; has {
		c.values[names.InboundHandshakes] = n - p.handshakes.Load()
	}
	if err != nil {
		c.from.Unknown = err.Error()
	} else if names.joint {
		c.from.Unknown = "the proxy counts the requests of all its listeners together"
	}
	if p.sidecar.Inbound != nil {
		unit := rc.sidecarUnit(p.carried())
		c.counter(balance.Place{Service: p.service, Point: balance.InReceived, Unit: unit}, names.Inbound, "")
		c.counter(balance.Place{Service: p.service, Point: balance.InSent, Unit: unit}, names.InboundSent, "")
		c.counter(balance.Place{Service: p.service, Point: balance.InReceived, Unit: balance.Handshakes}, names.InboundHandshakes, "")
		if own := platform.UnitOf(p.protocol); own != unit {
			c.miss(balance.Place{Service: p.service, Point: balance.InReceived, Unit: own}, onlyConnections)
		}
	}
	for _, o := range names.Outbound {
		callee := rc.layout.pods[o.Service][0]
		unit := rc.sidecarUnit(callee.carried())
		if !rc.layout.sidecars() {
			at := balance.Place{Service: p.service, Point: balance.Gateway, To: o.Service, Unit: unit}
			c.counter(at, cmp.Or(o.Received, o.Sent), "")
			if at.Unit = platform.UnitOf(callee.protocol); at.Unit != unit {
				c.miss(at, onlyConnections)
			}
			continue
		}
		c.counter(balance.Place{Service: p.service, Point: balance.OutReceived, To: o.Service, Unit: unit}, o.Received, "")
		c.counter(balance.Place{Service: p.service, Point: balance.OutSent, To: o.Service, Unit: unit}, o.Sent, o.Retries)
		c.counter(balance.Place{Service: p.service, Point: balance.OutSent, To: o.Service, Unit: balance.Handshakes}, o.Handshakes, "")
		if own := platform.UnitOf(callee.protocol); own != unit {
			c.miss(balance.Place{Service: p.service, Point: balance.OutSent, To: o.Service, Unit: own}, onlyConnections)
		}
	}
	return c.all
}

// onlyConnections is the reason why a sidecar does not count requests.
const onlyConnections = "the sidecars of this mesh count connections"

func (rc *requestCounters) sidecarUnit(protocol string) balance.Unit {
	if rc.layout.spec.Mesh.Local.Verify.Unit == mesh.UnitConnection {
		return balance.Connections
	}
	return platform.UnitOf(protocol)
}

// sidecarCounting makes the counts of a sidecar from its statistics.
type sidecarCounting struct {
	*counting
	values map[string]int64 // by name
}

// counter adds a counter and the counter of its retries, by their names. Without a name there is none.
func (c *sidecarCounting) counter(place balance.Place, name, retries string) {
	if name == "" {
		return
	}
	n, ok := c.values[name]
	if !ok {
		c.miss(place, "the sidecar has no counter "+name)
		return
	}
	c.add(place, balance.Tally{Count: n, Retries: c.values[retries]})
}
