package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/wait"
)

// The CPUs: client and server have one each, if the machine has two.
const (
	serverCPU = 0
	clientCPU = 1
)

// subject is a server under load, on a processor of its own.
type subject struct {
	name    string
	url     string // of what the load asks for
	process *proc.Process
	orders  string // base URL of the orders
	counter string // path of the request counter
	number  *regexp.Regexp
	client  http.Client
}

// startTimeout bounds the starting of a server.
const startTimeout = 10 * time.Second

// startOwn runs this program again as a server and reads its port.
func startOwn(ctx context.Context, args ...string) (*subject, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	p, err := proc.Start(ctx, proc.Command{Path: self, Args: args, CPUs: strconv.Itoa(serverCPU), Stdout: w})
	if err != nil {
		return nil, err
	}
	ports := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(r).ReadString('\n')
		ports <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, r)
	}()
	select {
	case line := <-ports:
		// The port of the orders, then the port of the calls if it differs.
		all := strings.Fields(line)
		if len(all) == 0 {
			return nil, errors.Join(errors.New("the server printed no port"), p.Stop(ctx, 0))
		}
		s := &subject{name: "own server", process: p, orders: "http://127.0.0.1:" + all[0], counter: "/_count",
			number: regexp.MustCompile(`^(\d+)$`)}
		s.url = s.orders + "/"
		if len(all) > 1 {
			s.url = "http://127.0.0.1:" + all[1] + grpcPath
		}
		return s, nil
	case <-p.Done():
		return nil, fmt.Errorf("the server ended: %w", p.Wait())
	case <-time.After(startTimeout):
		return nil, errors.Join(errors.New("the server did not print its port in time"), p.Stop(ctx, 0))
	}
}

// nginxConfig has one worker and keeps its connections for good.
const nginxConfig = `daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid %[1]s/pid;
error_log %[1]s/error.log;
events { worker_connections 16384; multi_accept on; }
http {
  access_log off;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  keepalive_requests 1000000000; keepalive_timeout 1h;
  server {
    listen 127.0.0.1:%[2]d reuseport;
    listen 127.0.0.1:%[3]d http2 reuseport;
    location = /_count { stub_status; }
    location / { return 200 "ok"; }
  }
}
`

// startNginx runs nginx, if it is on this machine, and returns it twice: as it
// speaks HTTP/1.1 and HTTP/2 (prior knowledge).
func startNginx(ctx context.Context) (h1, h2 *subject, err error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return nil, nil, err
		}
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "benchload-")
	if err != nil {
		return nil, nil, err
	}
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, ports[0], ports[1]), 0o600); err != nil {
		return nil, nil, err
	}
	p, err := proc.Start(ctx, proc.Command{Path: path, Args: []string{"-p", dir, "-c", config}, CPUs: strconv.Itoa(serverCPU)})
	if err != nil {
		return nil, nil, err
	}
	h1 = &subject{name: "nginx", process: p, orders: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), counter: "/_count",
		number: regexp.MustCompile(`(\d+)\s+(\d+)\s+(\d+)\s*\n`)}
	h1.url = h1.orders + "/"
	h2 = &subject{name: "nginx", process: p, orders: h1.orders, counter: h1.counter, number: h1.number,
		url: fmt.Sprintf("http://127.0.0.1:%d/", ports[1])}
	err = wait.Within(ctx, startTimeout, 10*time.Millisecond, func(ctx context.Context) error {
		_, err := h1.count(ctx)
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(err, p.Stop(ctx, 0))
	}
	return h1, h2, nil
}

// freePorts returns unused ports from the kernel.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func (s *subject) stop(ctx context.Context) {
	if s != nil {
		_ = s.process.Stop(ctx, time.Second)
	}
}

// order sends the server an order over a kept-alive connection.
func (s *subject) order(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.orders+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return b, err
}

// count is how many requests the server has answered, by its own counter.
func (s *subject) count(ctx context.Context) (int64, error) {
	b, err := s.order(ctx, s.counter)
	if err != nil {
		return 0, err
	}
	m := s.number.FindSubmatch(b)
	if m == nil {
		return 0, fmt.Errorf("no count in %.60q", b)
	}
	return strconv.ParseInt(string(m[len(m)-1]), 10, 64)
}

func (s *subject) stats(ctx context.Context) (st serverStats, err error) {
	b, err := s.order(ctx, "/_stats")
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(b, &st)
}
