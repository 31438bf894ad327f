package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/programtest"
)

// counts is the last output of the servers in testdata that count.
type counts struct {
	Requests    int64            `json:"requests"`
	Body        int64            `json:"body"`
	Statuses    map[string]int64 `json:"statuses"`
	Connections int64            `json:"connections"`
}

// countingServer is a server in testdata, in a framework.
type countingServer struct {
	framework string
	command   func(t *testing.T, framework string) []string // the address and the port follow
	http2     bool
}

// TestCountingServers compares counts with the counts of servers in Python, Ruby and Java: chunks, 100-continue, statuses,
// HTTP/2, and uploads larger than any window.
func TestCountingServers(t *testing.T) {
	tare := build(t)
	for _, s := range []countingServer{
		{"aiohttp", python, false}, {"uvicorn", python, false}, {"gunicorn", python, false}, {"hypercorn", python, true},
		{"puma", puma, false}, {"tomcat", java, true}, {"jetty", java, true}, {"undertow", java, true},
	} {
		t.Run(s.framework, func(t *testing.T) { compareCounts(t, tare, s) })
	}
}

// TestCountingAxum is TestCountingServers with a server in Rust, which cargo builds in 45 CPU seconds.
func TestCountingAxum(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("only with TARE_TEST_ALL: make e2e-all")
	}
	compareCounts(t, build(t), countingServer{"axum", axum, true})
}

// compareCounts sends loads to a server, and compares its counts with tare's.
func compareCounts(t *testing.T, tare string, s countingServer) {
	loads := []string{"/ -n 300", "/parts -n 100", "/gone -n 100", "/upload -n 100 -m PUT --body-size 3000 -H Expect:100-continue", "/ -n 100 -m HEAD", "/upload -n 8 -m PUT --body-size 1000000"}
	over2 := []string{"/ -n 300", "/parts -n 100", "/upload -n 100 -m PUT --body-size 3000", "/ -n 100 -m HEAD", "/upload -n 40 -m PUT --body-size 1000000 --streams 8"}
	at, command := host(), s.command(t, s.framework)
	p := launch(t, command[0], append(command[1:], at, "8080")...)
	p.await(t, "tcp", at+":8080")
	want := counts{Statuses: map[string]int64{}}
	check := func(args string, more ...string) {
		path, flags, _ := strings.Cut(args, " ")
		fields := append(strings.Fields(flags), more...)
		r := run(t, tare, time.Minute, append([]string{"http://" + at + ":8080" + path, "-c", "4", "--warmup", "0s"}, fields...)...).report
		if len(r.Errors) > 0 || r.GoAways > 0 {
			t.Errorf("%s %v: errors %v, reasons %v, %d GOAWAYs", args, more, r.Errors, r.Reasons, r.GoAways)
		}
		want.Requests += r.Requests
		for status, n := range r.Statuses {
			want.Statuses[status] += n
		}
		var size int64
		if _, after, found := strings.Cut(flags, "--body-size "); found {
			_, _ = fmt.Sscan(after, &size)
		}
		want.Body += r.Requests * size
		for _, n := range r.Addresses {
			want.Connections += n
		}
	}
	for _, args := range loads {
		check(args)
	}
	for _, args := range over2 {
		if s.http2 {
			check(args, "--http2")
		}
	}
	var got counts
	out := strings.TrimSpace(p.stop(t, syscall.SIGTERM))
	if json.Unmarshal([]byte(out[strings.LastIndex(out, "\n")+1:]), &got) != nil {
		t.Fatalf("the server printed %q", out)
	}
	if !maps.Equal(got.Statuses, want.Statuses) {
		t.Errorf("tare %+v\nserver %+v", want, got)
	} else if d := difftest.Of("got.Requests", got.Requests, want.Requests, "got.Body", got.Body, want.Body, "got.Connections", got.Connections, want.Connections); d != "" {
		t.Errorf("%s: tare %+v\nserver %+v", d, want, got)
	}
}

func python(t *testing.T, framework string) []string {
	path := "/usr/bin/python3" // Debian's, as its packages
	if _, err := os.Stat(path); err != nil {
		path = program(t, "python3")
	}
	packages := filepath.Join(serversDir(), "usr", "lib", "python3", "dist-packages")
	t.Setenv("PYTHONPATH", packages+string(os.PathListSeparator)+os.Getenv("PYTHONPATH"))
	if out, err := exec.Command(path, "-c", "import "+framework).CombinedOutput(); err != nil {
		programtest.Missing(t, fmt.Errorf("%s needs Debian's version of Python: %.300s", framework, out), serversScript)
	}
	return []string{path, "testdata/server.py", framework}
}

// axum builds the server with its dependencies from crates.io. The next build takes them from the cache.
func axum(t *testing.T, framework string) []string {
	target := filepath.Join(serversDir(), "..", framework)
	cmd := exec.Command(programtest.Installed(t, "cargo", serversScript), "build", "--quiet", "--locked", "--manifest-path", "testdata/axum/Cargo.toml", "--target-dir", target)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cargo build: %v\n%.2000s", err, out)
	}
	return []string{filepath.Join(target, "debug", "counting-axum")}
}

func puma(t *testing.T, framework string) []string {
	programtest.Installed(t, framework, serversScript)
	return []string{programtest.Installed(t, "ruby", serversScript), "testdata/server.rb"}
}

// java compiles and runs the server from its source, with the libraries of all frameworks.
func java(t *testing.T, framework string) []string {
	programtest.Installed(t, "javac", serversScript)
	undertow := filepath.Join(serversDir(), "..", "undertow")
	if jars, _ := filepath.Glob(filepath.Join(undertow, "undertow-core-*.jar")); jars == nil {
		programtest.Missing(t, errors.New("undertow-core is missing"), serversScript)
	}
	var path []string
	for _, name := range []string{
		"tomcat10-embed-core", "tomcat10-annotations-api", "servlet-api", "jetty9-server", "jetty9-http", "jetty9-io", "jetty9-util",
		"jetty9-http2-common", "jetty9-http2-hpack", "jetty9-http2-server",
	} {
		jar := filepath.Join(serversDir(), "usr", "share", "java", name+".jar")
		if _, err := os.Stat(jar); err != nil {
			programtest.Missing(t, err, serversScript)
		}
		path = append(path, jar)
	}
	path = append(path, filepath.Join(undertow, "*"))
	return []string{programtest.Installed(t, "java", serversScript), "-cp", strings.Join(path, string(os.PathListSeparator)), "testdata/Server.java", framework}
}
