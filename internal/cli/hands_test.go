package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// A name or message of another person's results begins no line of its own, and is not a command to CI, whose log has it.
func TestCommandsOfCI(t *testing.T) {
	const planted = "quickstart\n::error title=theirs::owned\r\n##[add-mask]x"
	run := filepath.Join(t.TempDir(), "run")
	must.OK(t, os.CopyFS(run, os.DirFS(results(t))))
	change(t, filepath.Join(run, "plan.json"), func(v map[string]any) { v["experiment"] = planted })
	change(t, filepath.Join(run, "environment.json"), func(v map[string]any) {
		for _, name := range []string{"tare", "kernel", "cpuModel", "arch", "governor"} {
			v[name] = planted
		}
	})
	obeyed := regexp.MustCompile(`(?m)^\s*::[a-z]|##\[`)
	shown := 0
	for _, args := range [][]string{{"report", run}, {"report", run, "--format", "markdown"}, {"compare", results(t), run}, {"compare", results(t), run, "--anyway"},
		{"watch", run, "--plain", "--speed", "0"}, {"run", "--resume", run}, {"verify", run}} {
		var stdout, stderr strings.Builder
		New(console.Console{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, nil).Run(t.Context(), args)
		for _, text := range []string{stdout.String(), stderr.String()} {
			if found := obeyed.FindString(text); found != "" {
				t.Errorf("tare %q prints %q:\n%s", args, found, text)
			}
			if strings.Contains(text, "owned") {
				shown++
			}
		}
	}
	if shown < 4 {
		t.Errorf("%d outputs have the name: the test is vacuous", shown)
	}
}

// serveOnce runs `tare serve` until the test ends, and returns the address that it prints.
func serveOnce(t *testing.T, args ...string) string {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	stderr, writer := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		New(console.Console{Out: io.Discard, Err: writer, In: strings.NewReader("0123456789abcdef-of-stdin\n")}, nil).Run(ctx, append([]string{"serve", t.TempDir(), "--listen", "127.0.0.1:0"}, args...))
		_ = writer.Close()
	}()
	t.Cleanup(func() { stop(); <-ended })
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	address := regexp.MustCompile(`http://\S+`).FindString(line)
	if err != nil || address == "" {
		t.Fatalf("%q: %v", line, err)
	}
	return address
}

// Another user of the machine, who can connect to its loopback address, sees no result without the printed link.
func TestServeHasAToken(t *testing.T) {
	for _, c := range []struct {
		name     string
		args     []string
		bare, as int // status without a token and with the token from stdin
	}{
		{"by default", nil, http.StatusUnauthorized, http.StatusUnauthorized},
		{"without", []string{"--no-token"}, http.StatusOK, http.StatusOK},
		{"of standard input", []string{"--token", "@-"}, http.StatusUnauthorized, http.StatusOK},
	} {
		link := serveOnce(t, c.args...)
		bare, query, random := strings.Cut(link, "?")
		if random != (c.name == "by default") {
			t.Errorf("%s: printed %s", c.name, link)
		}
		for address, want := range map[string]int{bare: c.bare, bare + "?token=0123456789abcdef-of-stdin": c.as, link: map[bool]int{true: http.StatusOK, false: c.bare}[random]} {
			jar := must.Get(cookiejar.New(nil))(t)
			client := &http.Client{Jar: jar}
			answer := must.Get(client.Get(address))(t)
			_ = answer.Body.Close()
			if answer.StatusCode != want || random && strings.Contains(answer.Request.URL.String(), query) && want == http.StatusOK {
				t.Errorf("%s: %s: %s", c.name, address, answer.Status)
			}
		}
	}
}

// A header's secret comes from the environment or a file, and not from the list of processes.
func TestSecretHeaders(t *testing.T) {
	t.Setenv("TARE_TEST_SECRET", "s3cret")
	file := must.File(t, t.TempDir(), "key", "k3y\n")
	got := make(chan http.Header, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer server.Close()
	load := func(headers ...string) (string, int) {
		var stdout, stderr strings.Builder
		args := []string{"load", server.URL, "-n", "1", "-c", "1"}
		for _, h := range headers {
			if user, ok := strings.CutPrefix(h, "--auth "); ok {
				args = append(args, "--auth", user)
				continue
			}
			args = append(args, "-H", h)
		}
		code := New(console.Console{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, nil).Run(t.Context(), args)
		return stdout.String() + stderr.String(), code
	}
	out, code := load("Authorization: Bearer ${env:TARE_TEST_SECRET}", "X-Api-Key: ${file:"+file+"}", "X-Other: $5")
	if code != console.Done || strings.Contains(out, "s3cret") || strings.Contains(out, "list of processes") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if h := <-got; h.Get("Authorization") != "Bearer s3cret" || h.Get("X-Api-Key") != "k3y" || h.Get("X-Other") != "$5" {
		t.Errorf("%v", h)
	}
	if out, _ := load("Authorization: Bearer s3cret"); !strings.Contains(out, "list of processes") || strings.Contains(out, "s3cret") {
		t.Error(out)
	}
	t.Setenv(envPassword, "s3cret")
	for user, noted := range map[string]bool{"--auth me": false, "--auth me:s3cret": true} {
		if out, code := load(user); code != console.Done || strings.Contains(out, "list of processes") != noted || strings.Contains(out, "s3cret") {
			t.Errorf("%s: exit code %d:\n%s", user, code, out)
		}
	}
	if out, code := load("Authorization: ${env:TARE_TEST_ABSENT}"); code != console.BadUsage || !strings.Contains(out, "TARE_TEST_ABSENT is not set") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// A damaged plan or environment is a finding of verify, as any other damaged file is.
func TestVerifyOfDamagedRoots(t *testing.T) {
	for _, name := range []string{result.PlanFile, result.EnvironmentFile} {
		dir := filepath.Join(t.TempDir(), "run")
		must.OK(t, os.CopyFS(dir, os.DirFS(results(t))))
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("{\"schema\": 7"), 0o600))
		if got, err := output(t, "verify", dir); exitCode(err) != console.Gate || !strings.Contains(got, name) {
			t.Errorf("%s: %d %v\n%s", name, exitCode(err), err, got)
		}
	}
}

// Flags name their value and what it must be, in words.
func TestWrongNumbersInFlags(t *testing.T) {
	for args, want := range map[string]string{
		"load -n 1e5 http://127.0.0.1:1/":              "--requests is \"1e5\", not a whole number",
		"load --gate success>NaN http://127.0.0.1:1/":  `"NaN" is not a share`,
		"load --rate NaN http://127.0.0.1:1/":          `"NaN" is neither a number of requests per second`,
		"load --cacert missing https://127.0.0.1:1/":   "--cacert: stat missing",
		"load --streams -1 --http2 http://127.0.0.1:1": "--streams must be above 0",
		"doctor --set=NaN":                             "--set needs an experiment file",
		"watch --speed NaN":                            "--speed is NaN",
		"plot --width NaN -o a.svg":                    "--width NaN is not from 60 to 1000 mm",
		"compare a b --confidence NaN":                 "--confidence is NaN",
		"import fortio a --out b --rate NaN":           "--rate is NaN",
		"import fortio a --out b --rate -3":            "--rate is -3",
		"weigh --rate NaN ./a":                         "--rate is NaN",
		"weigh --rate +Inf ./a":                        "--rate is +Inf",
		"weigh --rate -3 --namespace a":                "--rate is -3",
	} {
		_, err := output(t, strings.Fields(args)...)
		if exitCode(err) != console.BadUsage || strings.Contains(err.Error(), "strconv") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
