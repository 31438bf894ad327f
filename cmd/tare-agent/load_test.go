package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

// A load whose connections take the last descriptor reports it. The program must not end because a timer finds none.
func TestLoadWithoutDescriptors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	p := load.Profile{Targets: []string{server.URL}, Rate: 100, Connections: 200, Workers: 1, Measure: 300 * time.Millisecond, Timeout: time.Second, Drain: time.Second, ExpectSize: -1}
	profile := must.Get(json.Marshal(p))(t)
	cmd := exec.Command("sh", "-c", `ulimit -n 64 && exec "$@"`, "sh", os.Args[0], "load")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdin = bytes.NewReader(profile)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), `"report"`) || !strings.Contains(stderr.String(), "out of file descriptors") {
		t.Errorf("%v\n%.500s\n%.2000s", err, out, stderr.String())
	}
}
