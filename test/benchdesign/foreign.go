package main

import (
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// foreign is the command of a server that others wrote, or whose runtime they wrote. Its files are in dir.
type foreign func(dir string, levels []level, address string) ([]string, error)

var (
	//go:embed servers/server.js
	nodeServer string
	//go:embed servers/Server.java
	javaServer string
)

// node collects the garbage of requests on threads beside the one that answers.
func node(dir string, levels []level, address string) ([]string, error) {
	program, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	return script(dir, "server.js", nodeServer, address, levels, program)
}

// java compiles to its first level only, which is warm early. A small heap is collected often.
func java(dir string, levels []level, address string) ([]string, error) {
	program, err := exec.LookPath("java")
	if err != nil {
		return nil, err
	}
	return script(dir, "Server.java", javaServer, address, levels, program, "-XX:TieredStopAtLevel=1", "-Xmx128m", "-Dsun.net.httpserver.nodelay=true")
}

func script(dir, name, text, address string, levels []level, program ...string) ([]string, error) {
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return append(append(program, file, "-listen", address), flags(levels)...), nil
}

// envoy answers by itself. Its statistics of many clusters go to a port that drops them, all at once in each period.
func envoy(dir string, levels []level, address string) ([]string, error) {
	program, err := exec.LookPath("envoy")
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var clusters, period float64
	for _, l := range levels {
		switch l.flag {
		case "clusters":
			clusters = l.value
		case "flush":
			period = l.value
		}
	}
	var text strings.Builder
	if clusters > 0 {
		fmt.Fprintf(&text, `stats_flush_interval: %.3fs
stats_sinks: [{name: envoy.stat_sinks.statsd, typed_config: {"@type": type.googleapis.com/envoy.config.metrics.v3.StatsdSink, address: {socket_address: {protocol: UDP, address: 127.0.0.1, port_value: 9}}}}]
`, period)
	}
	text.WriteString("static_resources:\n  clusters:\n")
	for i := range int(clusters) + 1 {
		fmt.Fprintf(&text, "  - {name: c%d, load_assignment: {cluster_name: c%d, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 9}}}}]}]}}\n", i, i)
	}
	file := filepath.Join(dir, fmt.Sprintf("envoy-%.0f.yaml", clusters))
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	listener := fmt.Sprintf(`{static_resources: {listeners: [{address: {socket_address: {address: %q, port_value: %s}}, filter_chains: [{filters: [{name: http, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: http, http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}], route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: "/"}, direct_response: {status: 200, body: {inline_string: "ok\n"}}}]}]}}}]}]}]}}`, host, port)
	return []string{program, "--concurrency", "1", "--disable-hot-restart", "--log-level", "off", "--config-path", file, "--config-yaml", listener}, nil
}
