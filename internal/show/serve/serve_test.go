package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

const secret = "SECRET of another directory"

// serving is a server of dir on a free port of the loopback interface.
func serving(t testing.TB, c Config) (*Server, string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	c.Listen = l.Addr()
	if c.Page == nil {
		c.Page = func(w io.Writer, path string) error {
			text, err := os.ReadFile(filepath.Join(path, result.PlanFile))
			_, _ = w.Write(text)
			return err
		}
	}
	if c.Compare == nil {
		c.Compare = func(w io.Writer, base, next string) error {
			_, err := fmt.Fprintf(w, "%s against %s", filepath.Base(next), filepath.Base(base))
			return err
		}
	}
	s := must.Get(New(c))(t)
	server := s.HTTP()
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); _ = s.Close() })
	return s, "http://" + l.Addr().String()
}

// get returns status and body. The path is sent as it is.
func get(t *testing.T, base, path string, change func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, base, nil))(t)
	r.URL.Opaque = path // a client would clean it
	if change != nil {
		change(r)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer := must.Get(client.Do(r))(t)
	defer answer.Body.Close()
	body := must.Get(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(body), answer.Header
}

func write(t *testing.T, dir string, change func(*answertest.Study)) {
	t.Helper()
	s := answertest.Quickstart()
	s.Blocks, s.Warmup, s.Measure, s.Rate = 3, 1, 1, 100
	if change != nil {
		change(&s)
	}
	must.OK(t, s.Write(t, dir).Close())
}

// settled waits until the list has every summary.
func settled(t *testing.T, base, path string) string {
	t.Helper()
	for {
		status, body, _ := get(t, base, path, nil)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, body)
		}
		if !strings.Contains(body, "data-pending") {
			return body
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A run whose gates do not hold has no mark of success, though all trials are valid.
func TestListOfGates(t *testing.T) {
	for _, c := range []struct {
		study answertest.Study
		want  string
	}{
		{answertest.AB(0, 8), `<b class="good" aria-hidden="true">✓</b> 1 gate holds; all 24 trials valid`},
		{answertest.AB(0.1, 8), `<b class="bad" aria-hidden="true">!</b> 1 gate breached; all 24 trials valid`},
		{answertest.AB(0, 3), `<b class="bad" aria-hidden="true">!</b> 1 gate undecided; `},
	} {
		runs := t.TempDir()
		must.OK(t, c.study.Write(t, filepath.Join(runs, "one")).Close())
		_, base := serving(t, Config{Dirs: []string{runs}})
		must.Contain(t, settled(t, base, "/"), c.want)
	}
}

func TestList(t *testing.T) {
	runs := t.TempDir()
	write(t, filepath.Join(runs, "one"), nil)
	write(t, filepath.Join(runs, "deep", "er", "two"), func(s *answertest.Study) { s.Name, s.Seed = "<script>alert(1)</script>", 2 })
	_, base := serving(t, Config{Dirs: []string{runs}})
	all := settled(t, base, "/")
	must.Contain(t, all, "2 of 2 runs", `href="/run/one"`, `href="/run/deep/er/two"`, "&lt;script&gt;alert(1)", "all 15 trials valid", " a request ", "<b>finished</b>", "<option>envoy-tcp</option>")
	if strings.Contains(all, "<script>alert") {
		t.Error("a name is not escaped")
	}
	for query, want := range map[string]int{"/?q=deep/er": 1, "/?q=DEEP+envoy": 1, "/?q=nothing": 0, "/?mesh=envoy-tcp": 2, "/?mesh=linkerd": 0, "/?machine=other": 0} {
		if got := strings.Count(settled(t, base, query), `<th scope="row">`); got != want {
			t.Errorf("%s: %d runs, want %d", query, got, want)
		}
	}
	status, body, _ := get(t, base, "/compare?base=one&new=deep/er/two", nil)
	if status != http.StatusOK || !strings.Contains(body, "two against one") {
		t.Errorf("compare: %d %s", status, body)
	}
	status, _, header := get(t, base, "/run/deep/er/two", nil)
	if policy := header.Get("Content-Security-Policy"); status != http.StatusOK || !strings.Contains(policy, "script-src 'sha256-") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("page: %d, policy %s", status, policy)
	}
}

// Nothing outside the directories is shown, whatever the path is.
func TestNoPathLeadsOut(t *testing.T) {
	base := t.TempDir()
	runs, outside := filepath.Join(base, "runs"), filepath.Join(base, "outside")
	write(t, filepath.Join(runs, "one"), nil)
	write(t, outside, func(s *answertest.Study) { s.Name = secret })
	write(t, filepath.Join(runs, "linked-file"), func(s *answertest.Study) { s.Seed = 3 })
	write(t, filepath.Join(runs, "linked-trials"), func(s *answertest.Study) { s.Seed = 4 })
	swap := func(link, target string) {
		t.Helper()
		must.OK(t, errors.Join(os.RemoveAll(link), os.Symlink(target, link)))
	}
	swap(filepath.Join(runs, "linked-run"), outside)
	swap(filepath.Join(runs, "linked-file", result.EnvironmentFile), filepath.Join(outside, result.EnvironmentFile))
	swap(filepath.Join(runs, "linked-trials", result.TrialsDir), filepath.Join(outside, result.TrialsDir))
	must.OK(t, os.MkdirAll(filepath.Join(runs, "linked-plan"), 0o755))
	swap(filepath.Join(runs, "linked-plan", result.PlanFile), filepath.Join(outside, result.PlanFile))

	_, url := serving(t, Config{Dirs: []string{runs}})
	for _, id := range []string{
		"../outside", "..%2foutside", "%2e%2e/outside", "%2e%2e%2foutside", "..%252foutside", "one/../../outside", "one%2f..%2f..%2foutside", "..%5coutside", "..%c0%afoutside",
		"%00", "one%00", strings.ReplaceAll(outside, "/", "%2f"), outside[1:], "/" + outside, "./one", "one/", "one/trials", ".", "..", "",
		"linked-run", "linked-plan", "linked-file", "linked-trials",
	} {
		for _, page := range []string{"run", "live", "events"} {
			status, body, _ := get(t, url, "/"+page+"/"+id, nil)
			if status < 300 || strings.Contains(body, "SECRET") {
				t.Errorf("/%s/%s: %d %.200s", page, id, status, body)
			}
		}
		if status, body, _ := get(t, url, "/compare?base=one&new="+strings.ReplaceAll(id, "%", "%25"), nil); status < 300 || strings.Contains(body, "SECRET") {
			t.Errorf("compare with %s: %d %.200s", id, status, body)
		}
	}
	if body := settled(t, url, "/"); strings.Contains(body, "SECRET") || strings.Contains(body, "linked-run") || !strings.Contains(body, "is a link") {
		t.Errorf("the list shows what links lead to:\n%s", body)
	}
	if status, _, _ := get(t, url, "/run/one", nil); status != http.StatusOK {
		t.Errorf("the run itself: %d", status)
	}
}

// A page of an attacker whose name resolves to this machine gets nothing.
func TestOtherHostsAreRefused(t *testing.T) {
	s, url := serving(t, Config{Dirs: []string{t.TempDir()}})
	_, port, _ := net.SplitHostPort(s.Listen.String())
	for host, want := range map[string]int{
		"127.0.0.1:" + port: 200, "localhost:" + port: 200, "[::1]:" + port: 200, "evil.example:" + port: 421, "evil.example": 421,
		"127.0.0.1": 421, "127.0.0.1:1": 421, "192.0.2.1:" + port: 421, "localhost.evil.example:" + port: 421, "127.0.0.1.evil.example:" + port: 421,
	} {
		if got, _, _ := get(t, url, "/", func(r *http.Request) { r.Host = host }); got != want {
			t.Errorf("Host %s: %d, want %d", host, got, want)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		if got, _, _ := get(t, url, "/", func(r *http.Request) { r.Method = method }); got != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, got)
		}
	}
}

func TestToken(t *testing.T) {
	const token = "0123456789abcdef"
	_, url := serving(t, Config{Dirs: []string{t.TempDir()}, Token: token})
	status := func(path string, change func(*http.Request)) int {
		got, _, _ := get(t, url, path, change)
		return got
	}
	bearer := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", value) }
	}
	for name, got := range map[string]int{
		"none": status("/", nil), "wrong": status("/", bearer("Bearer 0123456789abcdeg")), "empty": status("/?token=", nil), "style": status("/serve.css", nil),
		"cookie": status("/", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie, Value: "x"}) }),
	} {
		if got != http.StatusUnauthorized {
			t.Errorf("token %s: %d", name, got)
		}
	}
	if got := status("/", bearer("Bearer "+token)); got != http.StatusOK {
		t.Errorf("the token: %d", got)
	}
	got, _, header := get(t, url, "/?q=a&token="+token, nil)
	if got != http.StatusSeeOther || header.Get("Location") != "/?q=a" {
		t.Errorf("token in the address: %d to %q", got, header.Get("Location"))
	}
	set := header.Get("Set-Cookie")
	must.Contain(t, set, "HttpOnly", "SameSite=Strict")
	if strings.Contains(set, token) {
		t.Errorf("cookie %q has the token", set)
	}
	if got := status("/", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie, Value: token}) }); got != http.StatusUnauthorized {
		t.Errorf("the token as a cookie: %d", got)
	}
	if got := status("/", func(r *http.Request) { r.Header.Set("Cookie", strings.Split(set, ";")[0]) }); got != http.StatusOK {
		t.Errorf("the cookie: %d", got)
	}
}

// A list reads a run's files once: then no file of an unchanged run is opened.
func TestSummariesAreKept(t *testing.T) {
	runs := t.TempDir()
	dir := filepath.Join(runs, "one")
	write(t, dir, nil)
	_, base := serving(t, Config{Dirs: []string{runs}})
	want := settled(t, base, "/")
	// Files that are not opened may be anything.
	must.OK(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == filepath.Join(dir, result.SumsFile) {
			return err
		}
		return os.WriteFile(path, []byte("damaged"), 0o600)
	}))
	if got := settled(t, base, "/"); got != want {
		t.Errorf("after damage to its files:\n%s\nwant\n%s", got, want)
	}
	// Another manifest is another run.
	must.OK(t, os.WriteFile(filepath.Join(dir, result.SumsFile), []byte("{}"), 0o600))
	must.Contain(t, settled(t, base, "/"), "cannot be read")
}

// A run under way is shown while it grows, and the stream ends with it.
func TestEvents(t *testing.T) {
	runs := t.TempDir()
	p := &plan.Plan{Schema: result.PlanSchema, Experiment: "small", Blocks: 1, TrialTime: time.Second, Treatments: []plan.Treatment{{ID: "none"}},
		Trials: []plan.Trial{{ID: "1-none-b1", Ordinal: 1, Block: 1, Treatment: "none"}}}
	d := must.Get(result.Create(filepath.Join(runs, "now"), []byte("kind: Experiment\n"), p, result.Environment{}))(t)
	defer d.Close()
	_, base := serving(t, Config{Dirs: []string{runs}})
	must.Contain(t, settled(t, base, "/"), `href="/live/now"`, "<b>running</b>")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, base+"/events/now", nil))(t)
	answer := must.Get(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("the stream ended without %q: %v", want, lines.Err())
	}
	until("0 of 1 trial")
	td := must.Get(d.Trial(p.Trials[0]))(t)
	at := time.Now().Add(-time.Minute)
	for _, e := range []result.Event{{Time: at, Kind: result.KindTrial}, {Time: at, Kind: result.KindPhase, Phase: "measure"},
		{Time: at, Kind: result.KindProgress, Progress: &result.Progress{AskedRate: 100, Rate: 98}}, {Time: at, Kind: result.KindLog, Message: "event: end\r\rdata: forged"}} {
		must.OK(t, td.Event(e))
	}
	until("trial 1 of 1")
	record := result.Record{ID: "1-none-b1", Ordinal: 1, Block: 1, Treatment: "none", Valid: true}
	must.OK(t, errors.Join(td.Event(result.Event{Time: at, Kind: result.KindDone}), td.Finish(record), d.Close()))
	for lines.Scan() && lines.Text() != "event: end" { // a message that contains it is not an event
	}
	after := 0
	for lines.Scan() { // its data, and an empty line
		after++
	}
	if after != 2 {
		t.Errorf("%d lines after the end", after)
	}
}

// A run that no process writes is finished if it has every trial, and interrupted otherwise.
func TestEndOfEvents(t *testing.T) {
	runs := t.TempDir()
	write(t, filepath.Join(runs, "whole"), nil)
	cut := filepath.Join(runs, "cut")
	write(t, cut, nil)
	must.OK(t, os.RemoveAll(filepath.Join(cut, result.TrialsDir, lastOf(t, cut))))
	killed := filepath.Join(runs, "killed")
	must.OK(t, os.CopyFS(killed, os.DirFS(cut)))
	must.OK(t, os.Remove(filepath.Join(killed, result.SumsFile)))
	_, base := serving(t, Config{Dirs: []string{runs}})
	for run, want := range map[string]string{"whole": finished, "cut": interrupted, "killed": interrupted} {
		_, body, _ := get(t, base, "/events/"+run, nil)
		must.Contain(t, body, "event: end\ndata: "+want+"\n")
		must.Contain(t, settled(t, base, "/"), "<b>"+want+"</b>")
	}
}

// A file that becomes a link after the check is not read.
func TestLinkAfterTheCheck(t *testing.T) {
	runs, outside := t.TempDir(), t.TempDir()
	dir := filepath.Join(runs, "one")
	write(t, dir, nil)
	_, base := serving(t, Config{Dirs: []string{runs}, Page: func(w io.Writer, dir string) error {
		// The check has passed: the page is being made.
		text, err := os.ReadFile(filepath.Join(dir, result.ExperimentFile))
		if err != nil {
			return err
		}
		secret := filepath.Join(outside, "secret")
		if err := errors.Join(os.WriteFile(secret, append([]byte("# secret\n"), text...), 0o600), os.Remove(filepath.Join(dir, result.ExperimentFile)), os.Symlink(secret, filepath.Join(dir, result.ExperimentFile))); err != nil {
			return err
		}
		d, err := result.Open(dir)
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = w.Write(d.Experiment())
		return err
	}})
	if status, body, _ := get(t, base, "/run/one", nil); status != http.StatusUnprocessableEntity || strings.Contains(body, "secret\n") {
		t.Errorf("%d: %s", status, body)
	}
}
