package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// runLoadCommand runs `tare load` with args against url; GC settings of the process stay changed.
func runLoadCommand(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out, diag bytes.Buffer
	c := New(console.Console{In: strings.NewReader(""), Out: &out, Err: &diag}, nil)
	cmd := newLoadCommand(c)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&diag)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(flagError) // as Root
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func hello(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("hello"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestLoadPrintsASummary(t *testing.T) {
	out := must.Get(runLoadCommand(t, hello(t), "--rate", "200", "-d", "500ms", "--warmup", "100ms", "--arrivals", "constant"))(t)
	t.Log("\n" + out)
	must.Contain(t, out, " req/s, 100 % ok, p50 ", "100 requests in 500ms, open loop at 200.0/s, constant arrivals", "200: 100 (100 %)", "response ", "connect ", "service ", "lateness ", "Generator")
}

// An interrupted load reports what it has sent, and does not pass for a load that ended.
func TestInterruptedLoad(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if requests.Add(1) == 20 {
			interrupt()
		}
	}))
	defer s.Close()
	var out, diag bytes.Buffer
	root := New(console.Console{In: strings.NewReader(""), Out: &out, Err: &diag}, nil).Root()
	root.SetArgs([]string{"load", s.URL, "--rate", "100", "--arrivals", "constant", "--warmup", "0s", "-d", "5m"})
	err := root.ExecuteContext(ctx)
	if code := console.Exit(&diag, "tare", err); code != console.Interrupted || !strings.Contains(out.String(), "100 % ok") {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out.String(), diag.String())
	}
}

func TestLoadWithARampLastsAsLongAsTheRamp(t *testing.T) {
	out := must.Get(runLoadCommand(t, hello(t), "--ramp", "200ms@100,200ms@100-300", "--arrivals", "constant"))(t)
	must.Contain(t, out, "60 requests in ", " in 400ms,")
}

func TestLoadChecksAnswers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(`{"smiley": "?", "errors": ["no smiley"], "data": {"errors": []}}`))
	}))
	t.Cleanup(s.Close)
	for _, test := range []struct {
		args          []string
		wantText, out string // wantText "": the checks hold
	}{
		{[]string{s.URL, "--expect-json", "data.id"}, "20 answers had not the JSON fields expected", "0 % ok (100 % wrong JSON field)"},
		{[]string{s.URL, "--expect-json", "errors", "--expect-json", "smiley"}, "", "100 % ok"},
		{[]string{s.URL, "--expect-status", "201,4xx"}, "20 answers had another status than expected", "0 % ok (100 % status 200)"},
		{[]string{s.URL + "/missing", "--expect-status", "404"}, "", "100 % ok"},
		{[]string{s.URL + "/missing"}, "", "0 % ok (100 % status 404)"},
		{[]string{s.URL, "--expect-body", "nothing of the kind"}, "20 answers had not the body expected", "100 %  wrong body"},
		{[]string{hello(t), "--expect-json", "a"}, "20 answers were no JSON", "100 %  not JSON"},
	} {
		out, err := runLoadCommand(t, append(test.args, "-n", "20", "-c", "2")...)
		var exit *console.ExitError
		if test.wantText == "" && err != nil || test.wantText != "" && (!errors.As(err, &exit) || exit.Code != console.Gate || !strings.Contains(err.Error(), test.wantText)) {
			t.Errorf("%q: %v", test.args, err)
		}
		if !strings.Contains(out, test.out) {
			t.Errorf("%q lacks %q:\n%s", test.args, test.out, out)
		}
	}
}

func TestLoadAsJSON(t *testing.T) {
	out := must.Get(runLoadCommand(t, hello(t), "-c", "2", "-d", "200ms", "--warmup", "0s", "-o", "json"))(t)
	var fields map[string]any
	must.OK(t, json.Unmarshal([]byte(out), &fields))
	for _, name := range []string{"requests", "rate", "latency_ms", "service_ms", "histogram", "result", "generator", "errors", "cpu_seconds", "verdict", "warnings", "statuses"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("report lacks %q:\n%s", name, out)
		}
	}
	var r load.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Loop != "closed" || r.Requests == 0 {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestLoadRefusesMistakes(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"ftp://127.0.0.1/"}, "does not begin with http://"},
		{[]string{"http://127.0.0.1:99999/"}, "port 99999"},
		{[]string{"http://127.0.0.1/", "--rate", "fast"}, `"fast" is neither a number`},
		{[]string{"http://127.0.0.1/", "--rate", "-1"}, `"-1" is neither a number`},
		{[]string{"http://127.0.0.1/", "--arrivals", "monthly"}, `arrivals "monthly"`},
		{[]string{"http://127.0.0.1/", "--ramp", "10s"}, `ramp "10s"`},
		{[]string{"http://127.0.0.1/", "--expect-status", "ok"}, `expected status "ok"`},
		{[]string{"http://127.0.0.1/", "--expect-json", "a..b"}, `JSON field "a..b"`},
		{[]string{"http://127.0.0.1/", "--cert", "load_test.go"}, "both a certificate and a key"},
		{[]string{"http://127.0.0.1/", "-H", "nonsense"}, `header "nonsense"`},
		{[]string{"http://127.0.0.1/", "-d", "0s"}, "measure window is 0s long"},
		{[]string{"http://127.0.0.1/", "-o", "xml"}, `--output is "xml"`},
		{[]string{"http://127.0.0.1/", "-m", "GE T"}, "method"},
	} {
		_, err := runLoadCommand(t, test.args...)
		var usage *hint.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want a usage error with %q", test.args, err, test.want)
		}
	}
}

func TestLoadFailsWhenNothingAnswers(t *testing.T) {
	must.Fail(t, must.Err(runLoadCommand(t, "http://127.0.0.1:1/", "-d", "200ms", "--warmup", "0s", "--rate", "50")), "no request was answered", "nobody listens")
}

// The seconds of the warm-up are marked in the table, and their requests counted.
func TestPhasesInCSV(t *testing.T) {
	out, err := runLoadCommand(t, hello(t), "-r", "100", "-d", "1s", "--warmup", "1500ms", "-o", "csv")
	rows, csvErr := csv.NewReader(strings.NewReader(out)).ReadAll()
	must.OK(t, errors.Join(err, csvErr))
	var phases []string
	answered := 0
	for i, row := range rows {
		phases = append(phases, row[len(row)-1])
		if i > 0 {
			answered += must.Get(strconv.Atoi(row[1]))(t)
		}
	}
	if want := []string{"phase", "warm-up", "warm-up and measure", "measure and tail"}; !slices.Equal(phases, want) {
		t.Errorf("phases %q, want %q", phases, want)
	}
	if answered < 150 {
		t.Errorf("%d answers in the table, want those of 1.5 s of warm-up and 1 s", answered)
	}
}

func TestLoadOfANumberOfRequests(t *testing.T) {
	out, err := runLoadCommand(t, hello(t), "-n", "57", "-c", "4", "-w", "2")
	must.OK(t, err)
	must.Contain(t, out, "57 requests in ")
	out, err = runLoadCommand(t, hello(t), "-n", "57", "-o", "csv")
	if lines := strings.Split(out, "\n"); err != nil || !strings.HasPrefix(out, "second,2xx,status,timeout,conn,response_ms_p50,") || !strings.HasPrefix(lines[1], "0,57,0,0,0,") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = runLoadCommand(t, hello(t), "-r", "1/h", "-d", "1s")
	if exitCode(err) != console.Failed || !strings.Contains(err.Error(), "no request was due in 1s") || !strings.HasPrefix(out, "No request was measured: none was due\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out = must.Get(runLoadCommand(t, hello(t), "-n", "57", "-o", "hdr"))(t)
	must.Contain(t, out, "Tag=response.2xx,")
}

func TestLoadOverHTTP2(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		}
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	out, err := runLoadCommand(t, s.URL, "-n", "100", "-c", "2", "--streams", "8", "--http2")
	must.OK(t, err)
	must.Contain(t, out, "100 requests in ", "HTTP/2, 2 connections of up to 8 streams")
	_, err = runLoadCommand(t, s.URL+"/a.B/C", "--protocol", "grpc", "-n", "10", "-c", "2") // no gRPC server: 200 without a status
	if err == nil {
		t.Error("an answer without grpc-status counts as one")
	}
}

func TestLoadOfAnEcho(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	out := must.Get(runLoadCommand(t, "tcp://"+l.Addr().String(), "-n", "100", "-c", "2", "--body-size", "300"))(t)
	must.Contain(t, out, "100 requests in ")
}

// Over TLS the summary shows the negotiated version and cipher.
func TestLoadOverTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	for want, args := range map[string][]string{
		"HTTP/2, 2 connections of up to 16 streams over TLS 1.3 TLS_": {"--protocol", "auto"},
		", 2 connections over TLS 1.3 TLS_":                           {"--protocol", "http1"},
		"resumed a session":                                           {"--no-keepalive"},
	} {
		out, err := runLoadCommand(t, append(args, s.URL, "-k", "-c", "2", "-n", "20")...)
		if err != nil {
			t.Errorf("%v: %v, lacks %q:\n%s", args, err, want, out)
		} else if d := difftest.Wrong(`!strings.Contains(strings.Join(strings.Fields(out), " "), want)`, !strings.Contains(strings.Join(strings.Fields(out), " "), want), `!strings.Contains(out, "100 % ok")`, !strings.Contains(out, "100 % ok"), `!strings.Contains(out, "  TLS  ")`, !strings.Contains(out, "  TLS  ")); d != "" {
			t.Errorf("%s: %v: %v, lacks %q:\n%s", d, args, err, want, out)
		}
	}
}

// A load with more connections than files names the limit, and not the server. It sends nothing.
func TestLoadBeyondTheLimitOfFiles(t *testing.T) {
	const inside = "TARE_TEST_FEW_FILES"
	if os.Getenv(inside) == "" {
		cmd := exec.Command("sh", "-c", `ulimit -n 256 && exec "$@"`, "sh", os.Args[0], "-test.run=^TestLoadBeyondTheLimitOfFiles$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLoadBeyond") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	_, err := runLoadCommand(t, "http://127.0.0.1:1/", "-c", "2000", "-d", "1s")
	if err == nil || !strings.Contains(err.Error(), "--connections: 2000 connections and 32 other files are more than the 256 files that a process may open (ulimit -n)") ||
		!strings.Contains(hint.Of(err), "raise the limit to 2032") {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	if _, err := runLoadCommand(t, "http://127.0.0.1:1/", "-c", "224", "-d", "100ms", "--warmup", "0s"); err == nil || strings.Contains(err.Error(), "files") {
		t.Error(err)
	}
}
