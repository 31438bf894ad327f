package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// parsedLoadFlags are the flags of a command line, and what they print.
func parsedLoadFlags(t *testing.T, args ...string) (*loadFlags, *strings.Builder) {
	t.Helper()
	f, notes := &loadFlags{in: strings.NewReader("from stdin")}, &strings.Builder{}
	flags := pflag.NewFlagSet("load", pflag.ContinueOnError)
	f.register(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	f.changed, f.notef = flags.Changed, func(format string, args ...any) { fmt.Fprintf(notes, format+"\n", args...) }
	return f, notes
}

// built is the profile of a command line.
func built(t *testing.T, args ...string) (load.Profile, error) {
	t.Helper()
	f, _ := parsedLoadFlags(t, append(args, "http://127.0.0.1/")...)
	return f.build([]string{"http://127.0.0.1/"})
}

// The letters of oha, hey and vegeta mean the same here.
func TestFlagsOfOtherGenerators(t *testing.T) {
	for _, test := range []struct {
		args     []string
		rate     float64
		duration time.Duration
	}{
		{nil, 0, 10 * time.Second},
		{[]string{"-z", "5s"}, 0, 5 * time.Second},
		{[]string{"-z", "5"}, 0, 5 * time.Second},
		{[]string{"-d", "0.5"}, 0, 500 * time.Millisecond},
		{[]string{"-d", "1m30s"}, 0, 90 * time.Second},
		{[]string{"-q", "50"}, 50, 10 * time.Second},
		{[]string{"-r", "50/s"}, 50, 10 * time.Second},
		{[]string{"-r", "50/1s"}, 50, 10 * time.Second},
		{[]string{"-r", "3000/m"}, 50, 10 * time.Second},
		{[]string{"-r", "max"}, 0, 10 * time.Second},
		{[]string{"-n", "10"}, 0, longest},
		{[]string{"-n", "10", "-z", "1m"}, 0, time.Minute},
	} {
		p, err := built(t, test.args...)
		if err != nil || p.Rate != test.rate || p.Measure != test.duration {
			t.Errorf("%q: rate %v, duration %v, %v", test.args, p.Rate, p.Measure, err)
		}
	}
}

func TestBodies(t *testing.T) {
	for _, test := range []struct {
		args       []string
		body, kind string
	}{
		{[]string{"--data", `{"a": 1}`}, `{"a": 1}`, "application/json"},
		{[]string{"--data", "a=1&b=2"}, "a=1&b=2", "application/x-www-form-urlencoded"},
		{[]string{"--data", "30"}, "30", "application/json"},
		{[]string{"--data", "@-"}, "from stdin", "application/x-www-form-urlencoded"},
		{[]string{"--data", "a", "-H", "content-type: text/plain"}, "a", "text/plain"},
	} {
		p, err := built(t, test.args...)
		kind := ""
		for _, h := range p.Headers {
			if name, value, _ := strings.Cut(h, ":"); strings.EqualFold(name, "content-type") {
				kind += strings.TrimSpace(value)
			}
		}
		if err != nil {
			t.Errorf("%q: body %q, %q, %v, %v", test.args, p.Body, kind, p.Measure, err)
		} else if d := difftest.Of("string(p.Body)", string(p.Body), test.body, "kind", kind, test.kind, "p.WithDefaults().Method", p.WithDefaults().Method, http.MethodPost, "p.Measure", p.Measure, 10*time.Second); d != "" {
			t.Errorf("%s: %q: body %q, %q, %v, %v", d, test.args, p.Body, kind, p.Measure, err)
		}
	}
	if _, err := built(t, "--data", "@/nowhere"); err == nil {
		t.Error("a missing file is accepted")
	}
	must.Fail(t, must.Err(runLoadCommand(t, "http://127.0.0.1/", "-d", "{}")), `"{}" is not a duration`, "no duration")
}

func TestZeroIsRefused(t *testing.T) {
	for _, args := range [][]string{{"-c", "0"}, {"-n", "0"}, {"-w", "0"}, {"-t", "0"}, {"--streams", "0"}} {
		must.Fail(t, must.Err(built(t, args...)), "must be above 0", args)
	}
}

// A value that no load can have, or a file that is missing, is refused also where the load does not use it.
func TestUnusedFlagsAreRead(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "ca.pem"), nil, 0o644))
	for _, test := range []struct{ want, args string }{
		{"--streams must be above 0", "--streams -1"},
		{"--cacert: stat missing: no such file", "--cacert missing"},
		{"--cert: stat missing: no such file", "--cert missing --key missing"},
		{"", "--cacert " + filepath.Join(dir, "ca.pem")},
	} {
		_, err := built(t, strings.Fields(test.args)...)
		must.Match(t, err, test.want, test.args)
	}
	for _, flag := range []string{"rate", "duration", "warmup", "timeout", "seed", "streams", "connections", "workers",
		"requests", "body-size", "gate", "find-max"} {
		for _, value := range []string{"NaN", "Inf", "-Inf", "zz"} {
			if _, err := runLoadCommand(t, "http://127.0.0.1:1/", "-n", "1", "--"+flag+"="+value); exitCode(err) != console.BadUsage {
				t.Errorf("--%s=%s: %v", flag, value, err)
			}
		}
	}
}

// Passwords are sent, and are in no output.
func TestCredentials(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got = append(got, user+"/"+password)
	}))
	t.Cleanup(s.Close)
	for _, output := range []string{"text", "json", "csv", "hdr"} {
		out, err := runLoadCommand(t, s.URL, "-n", "1", "-c", "1", "-a", "ann:s3cret:x", "-o", output)
		if err != nil || strings.Contains(out, "s3cret") || strings.Contains(out, "YW5uOnMzY3JldDp4") {
			t.Errorf("%s: %v\n%s", output, err, out)
		}
	}
	t.Setenv(envPassword, "other")
	if _, err := runLoadCommand(t, s.URL, "-n", "1", "-c", "1", "-a", "ann"); err != nil {
		t.Error(err)
	}
	if len(got) != 5 || got[0] != "ann/s3cret:x" || got[4] != "ann/other" {
		t.Errorf("%q", got)
	}
}

// --resolve means what it means to curl: the request keeps the URL's host.
func TestConnectionsElsewhere(t *testing.T) {
	hosts := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hosts <- r.Host }))
	t.Cleanup(s.Close)
	u, _ := url.Parse(s.URL)
	for _, args := range [][]string{
		{"http://shop.example:" + u.Port() + "/", "--resolve", "shop.example:" + u.Port() + ":127.0.0.1"},
		{"http://shop.example:" + u.Port() + "/", "--resolve", "*:" + u.Port() + ":127.0.0.1"},
		{"http://shop.example:" + u.Port() + "/", "--resolve", "other.example:" + u.Port() + ":192.0.2.1", "--resolve", "SHOP.example:" + u.Port() + ":127.0.0.1"},
	} {
		out, err := runLoadCommand(t, append(args, "-n", "1", "-c", "1")...)
		if err != nil || len(hosts) != 1 {
			t.Fatalf("%q: %d requests, %v\n%s", args, len(hosts), err, out)
		}
		if host := <-hosts; !strings.HasPrefix(host, "shop.example") {
			t.Errorf("%q: host %q", args, host)
		}
	}
	for _, args := range [][]string{{"--resolve", "shop.example:443"}, {"--resolve", "shop.example:443:nowhere"}, {"--resolve", "shop.example:0:127.0.0.1"}} {
		if _, err := built(t, args...); err == nil || !strings.Contains(err.Error(), "such as shop.example") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if got := must.Get(built(t, "--resolve", "a.example:80:[::2],::3"))(t).ConnectTo[0].To; !slices.Equal(got, []netip.Addr{netip.MustParseAddr("::2"), netip.MustParseAddr("::3")}) {
		t.Errorf("%v", got)
	}
}

// Every flag is in one group of the help, and the ten most used are first.
func TestHelpInGroups(t *testing.T) {
	out := must.Get(runLoadCommand(t, "--help"))(t)
	f := &loadFlags{}
	flags := pflag.NewFlagSet("load", pflag.ContinueOnError)
	f.register(flags)
	times := map[string]int{}
	for _, g := range loadGroups {
		for _, name := range g.names {
			times[name]++
		}
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if want := map[bool]int{true: 0, false: 1}[flag.Hidden]; times[flag.Name] != want {
			t.Errorf("--%s is in %d groups", flag.Name, times[flag.Name])
		}
		if strings.Contains(out, "--"+flag.Name) == flag.Hidden {
			t.Errorf("--%s in the help: %v", flag.Name, !flag.Hidden)
		}
	})
	if len(loadGroups[0].names) != 10 || strings.Index(out, "--rate") > strings.Index(out, "Examples:") || strings.Index(out, "Rate:") < strings.Index(out, "Examples:") {
		t.Errorf("order of the help:\n%s", out)
	}
}

// A mistyped command or flag has a suggestion.
func TestSuggestions(t *testing.T) {
	for _, test := range []struct {
		args        []string
		error, hint string
	}{
		{[]string{"laod"}, `unknown command "laod" for "tare"`, "did you mean load?"},
		{[]string{"load", "--ratte", "5"}, "unknown flag: --ratte", "did you mean --rate?"},
		{[]string{"load", "--connection", "5"}, "unknown flag: --connection", "did you mean --connections?"},
		{[]string{"load", "--time", "10"}, "unknown flag: --time", "did you mean --duration?"},
		{[]string{"weigh", "--duration", "10s"}, "unknown flag: --duration", "did you mean --time?"},
		{[]string{"plan"}, "nothing is named", "usage: tare plan FILE"},
		{[]string{"load", "-X", "GET"}, "unknown shorthand flag: 'X' in -X", "did you mean -m? `tare load --help` lists the flags"},
		{[]string{"load", "-Y"}, "unknown shorthand flag: 'Y' in -Y", "`tare load --help` lists the flags"},
	} {
		root := New(console.Console{In: strings.NewReader(""), Out: io.Discard, Err: &bytes.Buffer{}}, nil).Root()
		root.SetArgs(test.args)
		err := root.ExecuteContext(t.Context())
		var usage *hint.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), test.error) || !strings.Contains(hint.Of(err), test.hint) {
			t.Errorf("%q: %v, hint %q", test.args, err, hint.Of(err))
		}
	}
}

// --targets reads requests from a file or standard input, beside the requests to the URLs.
func TestTargetsFile(t *testing.T) {
	f, _ := parsedLoadFlags(t, "--targets", "-", "-H", "X: y")
	f.in = strings.NewReader("GET http://a/\n\nPOST http://b/c\nA: b\n")
	p, err := f.build([]string{"http://u/"})
	if err != nil || !slices.Equal(p.Targets, []string{"http://u/", "http://a/", "http://b/c"}) || len(p.Calls) != 3 {
		t.Errorf("%+v, %v", p, err)
	} else if d := difftest.Of("p.Calls[0].Method", p.Calls[0].Method, "", "p.Calls[2].Headers[0]", p.Calls[2].Headers[0], "A: b", "slices.Equal(p.Weights, []int{1, 1, 1})", slices.Equal(p.Weights, []int{1, 1, 1}), true); d != "" {
		t.Errorf("%s: %+v, %v", d, p, err)
	}
	f, _ = parsedLoadFlags(t, "--targets", "-")
	f.in = strings.NewReader(strings.Repeat("GET http://a/\n", 200))
	if p, err = f.build(nil); err != nil || p.Connections != load.DefaultConnections {
		t.Errorf("200 requests to one host on %d connections: %v", p.Connections, err)
	}
	f, _ = parsedLoadFlags(t, "--targets", "-")
	var hosts strings.Builder
	for i := range 200 {
		fmt.Fprintf(&hosts, "GET http://h%d/\n", i)
	}
	f.in = strings.NewReader(hosts.String())
	if p, err = f.build(nil); err != nil || p.Connections != 200 {
		t.Errorf("200 hosts on %d connections: %v", p.Connections, err)
	}
	_, err = runLoadCommand(t)
	must.Fail(t, err, "no URL: give one, or a file of requests", "no URL")
	_, err = runLoadCommand(t, "--targets", "/nowhere")
	if exitCode(err) != console.BadUsage {
		t.Errorf("no file: %v", err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(s.Close)
	file := t.TempDir() + "/requests.jsonl"
	must.OK(t, os.WriteFile(file, []byte(`{"url":"`+s.URL+`/x","weight":3}`+"\n"+`{"method":"PUT","url":"`+s.URL+`/x"}`), 0o600))
	out := must.Get(runLoadCommand(t, "--targets", file, "-n", "40", "-r", "400"))(t)
	must.Contain(t, out, "75.0 % ok (25.0 % status 418)", "GET /x", "PUT /x")
}

// A mistyped command of a group has a suggestion too.
func TestSuggestionsInGroups(t *testing.T) {
	group := &cobra.Command{Use: "mesh"}
	group.AddCommand(&cobra.Command{Use: "install", Run: func(*cobra.Command, []string) {}}, &cobra.Command{Use: "verify", Run: func(*cobra.Command, []string) {}})
	if err := UsageArgs(cobra.NoArgs)(group, []string{"instal"}); hint.Of(err) != "did you mean install?" || exitCode(err) != console.BadUsage {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	if err := UsageArgs(cobra.MinimumNArgs(2))(group, []string{"instal"}); err == nil || strings.Contains(err.Error(), "unknown") {
		t.Errorf("too few arguments: %v", err)
	}
}
