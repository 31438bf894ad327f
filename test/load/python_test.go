package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/programtest"
)

// pythonCounts is the last output of testdata/server.py.
type pythonCounts struct {
	Requests    int64            `json:"requests"`
	Body        int64            `json:"body"`
	Statuses    map[string]int64 `json:"statuses"`
	Connections int64            `json:"connections"`
}

// TestPython compares counts with those of Python's servers: chunks, 100-continue, statuses, HTTP/2.
func TestPython(t *testing.T) {
	tare := build(t)
	python := "/usr/bin/python3" // Debian's, as its packages
	if _, err := os.Stat(python); err != nil {
		python = program(t, "python3")
	}
	packages := filepath.Join(serversDir(), "usr", "lib", "python3", "dist-packages")
	t.Setenv("PYTHONPATH", packages+string(os.PathListSeparator)+os.Getenv("PYTHONPATH"))
	const size = 3000
	loads := []string{"/ -n 300", "/parts -n 100", "/gone -n 100", "/upload -n 100 -m PUT --body-size 3000 -H Expect:100-continue"}
	for framework, more := range map[string][]string{
		"aiohttp": nil, "uvicorn": nil, "hypercorn": {"/ -n 300 --http2", "/parts -n 100 --http2", "/upload -n 100 -m PUT --body-size 3000 --http2"},
	} {
		t.Run(framework, func(t *testing.T) {
			if out, err := exec.Command(python, "-c", "import "+framework).CombinedOutput(); err != nil {
				programtest.Missing(t, fmt.Errorf("%s needs Debian's version of Python: %.300s", framework, out), serversScript)
			}
			at := host()
			p := launch(t, python, "testdata/server.py", framework, at, "8080")
			p.await(t, "tcp", at+":8080")
			want := pythonCounts{Statuses: map[string]int64{}}
			for _, args := range append(loads, more...) {
				path, flags, _ := strings.Cut(args, " ")
				r := run(t, tare, time.Minute, append([]string{"http://" + at + ":8080" + path, "-c", "4", "--warmup", "0s", "--calibrate", "0s"}, strings.Fields(flags)...)...).report
				if len(r.Errors) > 0 {
					t.Errorf("%s: errors %v, reasons %v", args, r.Errors, r.Reasons)
				}
				want.Requests += r.Requests
				for status, n := range r.Statuses {
					want.Statuses[status] += n
				}
				if path == "/upload" {
					want.Body += r.Requests * size
				}
				for _, n := range r.Addresses {
					want.Connections += n
				}
			}
			var got pythonCounts
			if out := p.stop(t, syscall.SIGTERM); json.Unmarshal([]byte(out[max(0, strings.Index(out, "{")):]), &got) != nil {
				t.Fatalf("the server printed %q", out)
			}
			if got.Requests != want.Requests || got.Body != want.Body || got.Connections != want.Connections || !maps.Equal(got.Statuses, want.Statuses) {
				t.Errorf("tare %+v\nserver %+v", want, got)
			}
		})
	}
}
