package local

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// A proxy in Python that copies bytes, and serves the number of requests to Prometheus: listen, upstream, admin, error.
const countingProxy = `
import http.server, socket, sys, threading
listen, upstream, admin, error = sys.argv[1:5]
count, lock = int(error), threading.Lock()
def address(text): host, port = text.rsplit(":", 1); return host, int(port)
def copy(a, b, counted):
    global count
    try:
        while data := a.recv(65536):
            if counted:
                with lock: count += data.count(b" HTTP/1.1\r\n") * (2 if error != "0" else 1)
            b.sendall(data)
    except OSError: pass
    for s in (a, b):
        try: s.shutdown(socket.SHUT_RDWR)
        except OSError: pass
def serve(client):
    server = socket.create_connection(address(upstream))
    threading.Thread(target=copy, args=(server, client, False), daemon=True).start()
    copy(client, server, True)
class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = 'requests_total{code="200",way="in"} %d\nrequests_total{code="500",way="in"} 0\nrequests_total{code="200",way="no"} 7\n' % count
        self.send_response(200); self.end_headers(); self.wfile.write(text.encode())
    def log_message(self, *a): pass
threading.Thread(target=http.server.ThreadingHTTPServer(address(admin), Metrics).serve_forever, daemon=True).start()
listener = socket.create_server(address(listen), backlog=100)
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
`

// A sidecar of the user may have counters. They are read from the process of each listener, and must agree with the probes.
func TestCountersOfAnySidecar(t *testing.T) {
	for errors, want := range map[string]string{"0": "", "1": "increased by 40 in 20 probes, 20 expected"} {
		t.Run(errors, func(t *testing.T) {
			t.Parallel()
			more := `, counters: {format: prometheus, url: "http://${admin}/metrics"}}
  verify: {unit: request, inbound: 'requests_total{way="in"}', outbound: 'requests_total{way="in"}'`
			d := mustDeploy(t, Options{FetchProgram: onPath}, anySidecar(t, countingProxy, `"${admin}", "`+errors+`"`, more), "back")
			failed := strings.Join(failures(t, d.declare()), "\n")
			if want == "" && failed != "" || !strings.Contains(failed, want) {
				t.Errorf("failed checks: %s, want %q", failed, want)
			}
			counts := must.Get(d.declare().RequestCounts(t.Context()))(t)
			var places []string
			for _, c := range counts {
				if c.Unit == balance.Requests && c.Point != balance.Served && c.Point != balance.Sent && c.Count > 0 {
					places = append(places, c.Service+" "+string(c.Point)+" "+c.To)
				}
			}
			slices.Sort(places)
			if got := strings.Join(places, ", "); got != "back inbound-received , echo inbound-received , echo outbound-sent back, load outbound-sent echo" {
				t.Errorf("counted: %s", got)
			}
		})
	}
}

// Caddy's metrics are off, as it is installed. With them its requests are verified by counters too.
func TestCountersOfCaddy(t *testing.T) {
	t.Parallel()
	path, libraries := programtest.Server(t, "caddy")
	m := load(t, "caddy")
	local := *m.Local
	s := &local.Sidecar
	s.Config = strings.ReplaceAll(s.Config, `"automatic_https": {"disable": true},`, `"automatic_https": {"disable": true}, "metrics": {},`)
	s.Config = strings.Replace(s.Config, `"servers": {`, `"servers": {"counters": {"listen": [{{json (print "unix/" .AdminPath)}}], "routes": [{"handle": [{"handler": "metrics"}]}]}{{if or .Inbound .Outbound}},{{end}}`, 1)
	s.Environment = maps.Clone(s.Environment)
	s.Environment["LD_LIBRARY_PATH"] = libraries
	s.Counters = &mesh.CounterSource{Format: mesh.CountersPrometheus, Socket: "{{.AdminPath}}", URL: "http://caddy/metrics"}
	local.Verify = mesh.Verify{Unit: mesh.UnitRequest, Inbound: `caddy_http_requests_total{handler="reverse_proxy",server="inbound"}`,
		Outbound: `caddy_http_requests_total{handler="reverse_proxy",server="outbound-{{.Out.Service}}"}`}
	m.Local = &local
	d := mustDeploy(t, Options{FetchProgram: servedAt(path)}, m, "back")
	if failed := verified(t, d.declare()); failed != "" {
		t.Error(failed)
	}
}

func TestCounterTexts(t *testing.T) {
	haproxy := "# pxname,svname,stot,mode,req_tot,\nin,FRONTEND,3,http,12,\nout,BACKEND,4,http,,\n\n"
	values, err := haproxyValues([]byte(haproxy))
	if err != nil {
		t.Errorf("HAProxy: %v, %v", values, err)
	} else if d := difftest.Of(`values["in.FRONTEND.req_tot"]`, values["in.FRONTEND.req_tot"], 12, `values["out.BACKEND.stot"]`, values["out.BACKEND.stot"], 4, "len(values)", len(values), 3); d != "" {
		t.Errorf("%s: HAProxy: %v, %v", d, values, err)
	}
	nginx := "Active connections: 2 \nserver accepts handled requests\n 7 6 31 \nReading: 0 Writing: 1 Waiting: 1 \n"
	if values, err := nginxValues([]byte(nginx)); err != nil || values["requests"] != 31 || values["handled"] != 6 {
		t.Errorf("nginx: %v, %v", values, err)
	}
	series := "# HELP a b\nr_total{a=\"x\",b=\"\\\"}\"} 3\nr_total{a=\"x\",b=\"z\"} 4e0 1700000000\nr_total{a=\"y\"} 5\nr_totals 9\nplain 1.5e3\n"
	names := []string{`r_total{a="x"}`, `r_total`, `r_total{a="x",b="z"}`, "plain", "absent"}
	values, err = prometheusValues([]byte(series), names)
	for name, want := range map[string]int64{names[0]: 7, names[1]: 12, names[2]: 4, names[3]: 1500, names[4]: 0} {
		if values[name] != want {
			t.Errorf("Prometheus: %s is %d, want %d", name, values[name], want)
		}
	}
	if err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "<html>", "pxname,svname", "a,b\n1,2"} {
		if _, err := nginxValues([]byte(text)); err == nil {
			t.Errorf("nginx reads %q", text)
		}
		if _, err := haproxyValues([]byte(text)); err == nil && !strings.HasPrefix(text, "pxname") {
			t.Errorf("HAProxy's CSV is %q", text)
		}
	}
	for _, text := range []string{"a NaN", "a -1", "a +Inf", "a x"} {
		if v, err := prometheusValues([]byte(text), []string{"a"}); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
}
