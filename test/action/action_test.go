// Package action_test plays the runner of CI systems: it carries out the steps of action.yml and of the GitLab template
// with the real tare, and a server that answers as GitHub's interface for comments does.
package action_test

import (
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// An expression in a script would be evaluated by the shell: a branch called $(…) would run.
func TestInputsReachScriptsByTheEnvironment(t *testing.T) {
	m := readAction(t)
	if m.Runs.Using != "composite" || len(m.Runs.Steps) < 4 {
		t.Fatalf("%d steps of an action that uses %q", len(m.Runs.Steps), m.Runs.Using)
	}
	text := must.Get(os.ReadFile("../../action.yml"))(t)
	for _, s := range m.Runs.Steps {
		if strings.Contains(s.Run, "${{") {
			t.Errorf("the script of %q has an expression: %s", s.Name, s.Run)
		}
	}
	for name, input := range m.Inputs {
		if input.Description == "" || !strings.Contains(string(text), "inputs."+name) {
			t.Errorf("input %s has no description, or no use", name)
		}
	}
}

// A tag can be moved to other code. A commit cannot: its version is in a comment.
func TestActionsArePinned(t *testing.T) {
	workflows, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(workflows) < 4 {
		t.Fatalf("%d workflows, %v", len(workflows), err)
	}
	pinned := regexp.MustCompile(`^(?:\./|[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	for _, file := range append(workflows, "../../action.yml") {
		text := must.Get(os.ReadFile(file))(t)
		for _, m := range regexp.MustCompile(`(?m)^\s*(?:- )?uses: (.*)$`).FindAllStringSubmatch(string(text), -1) {
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s: %s is not a commit with its version", file, m[1])
			}
		}
	}
}

// A pull request runs its own programs: its token stays out of the checkout, and the event is not
// pull_request_target, whose token writes for forks too.
func TestPullRequestsGetNoToken(t *testing.T) {
	checkouts := 0
	for _, file := range []string{"../../docs/tutorial/ab-in-ci.md", "../../.github/workflows/sidecar-cost.yml"} {
		text := must.Get(os.ReadFile(file))(t)
		for _, m := range regexp.MustCompile(`uses: actions/checkout@.*\n(.*)\n`).FindAllStringSubmatch(string(text), -1) {
			if checkouts++; !strings.Contains(m[1], "persist-credentials: false") {
				t.Errorf("%s: the checkout keeps the token: %s", file, m[1])
			}
		}
		if !strings.Contains(string(text), "on: pull_request\n") {
			t.Errorf("%s is not for pull requests", file)
		}
	}
	if checkouts != 3 {
		t.Errorf("%d checkouts", checkouts)
	}
}

// The workflows in the documentation use inputs that exist.
func TestDocumentedInputs(t *testing.T) {
	known := readAction(t).Inputs
	uses := 0
	for _, file := range []string{"../../docs/tutorial/ab-in-ci.md", "../../.github/workflows/sidecar-cost.yml"} {
		text := must.Get(os.ReadFile(file))(t)
		for _, m := range regexp.MustCompile(`(?m)^( *)- uses: \./\S*\n((?:\s+.*\n)+?)(?:\n|\z|\x60\x60\x60)`).FindAllStringSubmatch(string(text), -1) {
			var step struct {
				With map[string]string `yaml:"with"`
			}
			if err := yaml.Unmarshal([]byte(m[2]), &step); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			uses++
			for name := range step.With {
				if _, ok := known[name]; !ok {
					t.Errorf("%s: action.yml has no input %q", file, name)
				}
			}
		}
	}
	if uses < 2 {
		t.Errorf("%d uses of the action found", uses)
	}
}

// gitHub is a server for the comments of a pull request.
type gitHub struct {
	sync.Mutex
	comments []comment
	refuse   bool // every write
	tokens   map[string]bool
}

type comment struct {
	ID   int    `json:"id"`
	Body string `json:"body"`
}

func (g *gitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.Lock()
	defer g.Unlock()
	g.tokens[r.Header.Get("Authorization")] = true
	var in comment
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &in)
	one := regexp.MustCompile(`^/repos/owner/repository/issues/comments/(\d+)$`).FindStringSubmatch(r.URL.Path)
	list := r.URL.Path == "/repos/owner/repository/issues/7/comments"
	switch {
	case r.Method == http.MethodGet && list:
		_ = json.NewEncoder(w).Encode(append([]comment{}, g.comments...))
	case g.refuse:
		http.Error(w, `{"message": "Resource not accessible by integration"}`, http.StatusForbidden)
	case r.Method == http.MethodPost && list:
		g.comments = append(g.comments, comment{len(g.comments) + 1, in.Body})
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPatch && one != nil:
		g.comments[int(one[1][0]-'1')].Body = in.Body
	default:
		http.NotFound(w, r)
	}
}

// job is the environment of a pull request's job.
func job(t *testing.T, g *gitHub, event string) map[string]string {
	t.Helper()
	g.tokens = map[string]bool{}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	path := must.File(t, t.TempDir(), "event.json", event)
	return map[string]string{"GITHUB_API_URL": server.URL, "GITHUB_REPOSITORY": "owner/repository", "GITHUB_EVENT_PATH": path}
}

const pullRequest = `{"pull_request": {"number": 7}}`

// gate of recorded runs, which have none.
const gate = "cpu_us_per_request/data < +2%"

// source copies the parts of the repository that a build needs: the checkout of an action is its own.
func source(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds tare, and carries out an action")
	}
	to := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", "go.work", "Makefile", "cmd", "examples", "internal", "kube", "tools/ci"} {
		must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755))
		if out, err := exec.Command("cp", "-R", filepath.Join("../..", name), filepath.Join(to, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return to
}

// recorded writes runs whose B costs a share more than A.
func recorded(t *testing.T, more, noise float64) string {
	t.Helper()
	a := answertest.Truth{AppUS: 60, DataUS: 400, LoadUS: 20, AppMiB: 14, DataMiB: 50, MedianMS: 0.5}
	b := a
	b.DataUS *= 1 + more
	of := func(level string) plan.Factors { return plan.Factors{"mesh": level} }
	dir := filepath.Join(t.TempDir(), "recorded")
	d := answertest.Study{
		Name: "ab", Blocks: 8, Seed: 7, Warmup: 1, Measure: 2, Rate: 50, Noise: noise,
		Treatments: []answertest.Treatment{
			{ID: "envoy-a", Factors: of("envoy-a"), Truth: a},
			{ID: "envoy-a-control", Factors: plan.Factors{"mesh": "envoy-a", plan.ControlFactor: true}, Baseline: "envoy-a", Control: true, Truth: a},
			{ID: "envoy-b", Factors: of("envoy-b"), Baseline: "envoy-a", Truth: b},
		},
	}.Write(t, dir)
	must.OK(t, d.Close())
	return dir
}

func TestAction(t *testing.T) {
	path := source(t)
	t.Parallel()
	const gates = gate + "\n\n  memory_mib/data < +4MiB\r\n"
	g := &gitHub{comments: []comment{{1, "Looks good."}}}
	breached := recorded(t, 0.1, 0.005)
	r := play(t, path, map[string]string{"from": breached, "gates": gates}, job(t, g, pullRequest))
	t.Log(r.log.String())
	if r.failed != "Compare" || r.code != 4 || r.outputs["compare"]["outcome"] != "breached" {
		t.Errorf("step %q failed with exit code %d, outputs %v", r.failed, r.code, r.outputs)
	}
	if !strings.Contains(r.log.String(), "::error title=tare ab::") || !strings.Contains(r.log.String(), "The gate “CPU/request, data plane < +2%25” is breached: ") || !strings.Contains(r.summary, "1 gate breached, 1 gate holds") {
		t.Errorf("no annotation, or no summary:\n%s", r.summary)
	}
	if len(g.comments) != 2 || !strings.HasPrefix(g.comments[1].Body, "<!-- tare: tare ab -->\n### tare: 1 gate breached") || !strings.Contains(g.comments[1].Body, "</details>") {
		t.Fatalf("comments: %+v", g.comments)
	}
	if !g.tokens["Bearer secret-token"] || strings.Contains(r.log.String(), "secret-token") {
		t.Errorf("tokens %v; the log must not have it", g.tokens)
	}
	if len(r.used) != 2 || !strings.HasPrefix(r.used[1].Uses, "actions/upload-artifact@") || r.used[1].With["name"] != "tare-ab" {
		t.Fatalf("steps with uses: %+v", r.used)
	}
	for _, name := range []string{"comment.md", "junit.xml", "report.html"} {
		if info, err := os.Stat(filepath.Join(r.dir, r.used[1].With["path"], name)); err != nil || info.Size() == 0 {
			t.Errorf("the artifact lacks %s: %v", name, err)
		}
	}

	again := func(inputs, env map[string]string) *runner { // with the program of the first job: each would link it
		inputs["tare"] = filepath.Join(path, "bin", "tare")
		return play(t, path, inputs, env)
	}

	// The next push: the comment is replaced. Another title is another comment.
	holds := recorded(t, 0, 0.005)
	r = again(map[string]string{"from": holds, "gates": gates}, job(t, g, pullRequest))
	if r.failed != "" || r.outputs["compare"]["outcome"] != "holds" || len(g.comments) != 2 {
		t.Errorf("failed %q, %v, comments %d:\n%s", r.failed, r.outputs, len(g.comments), r.log.String())
	} else if d := difftest.Wrong(`!strings.Contains(g.comments[1].Body, "2 gates hold")`, !strings.Contains(g.comments[1].Body, "2 gates hold")); d != "" {
		t.Errorf("%s: failed %q, %v, comments %d:\n%s", d, r.failed, r.outputs, len(g.comments), r.log.String())
	}
	again(map[string]string{"from": holds, "gates": gate, "title": "memory -->"}, job(t, g, pullRequest))
	if len(g.comments) != 3 || !strings.HasPrefix(g.comments[2].Body, "<!-- tare: memory - -->\n") {
		t.Errorf("%d comments", len(g.comments))
	}

	// Noise decides nothing.
	noisy := recorded(t, 0, 0.3)
	for undecided, code := range map[string]int{"": 5, "pass": 0, "fail": 4} {
		r := again(map[string]string{"from": noisy, "gates": gate, "undecided": undecided, "comment": "false", "artifact": ""}, job(t, g, pullRequest))
		if d := difftest.Of("r.code", r.code, code, `r.outputs["compare"]["outcome"]`, r.outputs["compare"]["outcome"], "undecided", "len(r.used)", len(r.used), 0, "len(g.comments)", len(g.comments), 3); d != "" {
			t.Errorf("%s: undecided %q: exit code %d, want %d; %v\n%s", d, undecided, r.code, code, r.outputs, r.log.String())
		}
	}

	// A fork's token may not write, and a push is not a pull request: the job goes on.
	g.refuse = true
	r = again(map[string]string{"from": holds, "gates": gate}, job(t, g, pullRequest))
	if r.failed != "" || !strings.Contains(r.log.String(), "::warning::no comment: the token has no permission") {
		t.Errorf("failed %q:\n%s", r.failed, r.log.String())
	}
	r = again(map[string]string{"from": holds, "gates": gate}, job(t, g, `{"after": "abc"}`))
	if r.failed != "" || !strings.Contains(r.log.String(), "no pull request: no comment") {
		t.Errorf("failed %q:\n%s", r.failed, r.log.String())
	}

	// Inputs are data.
	line := "$(touch pwned)`touch pwned`'; touch pwned; '\"; touch pwned; \""
	lines := line + "\ntouch pwned\n"
	for _, inputs := range []map[string]string{
		{"from": holds, "gates": gate, "out": line, "title": lines, "token": line},
		{"from": holds, "gates": lines}, {"from": holds, "detect": lines}, {"from": holds, "gates": gate, "undecided": lines}, {"from": lines},
		{"arguments": lines, "max-time": lines},
	} {
		noFile(t, again(inputs, job(t, g, pullRequest)), inputs)
	}
}

// noFile checks that no script made the file pwned.
func noFile(t *testing.T, r *runner, with map[string]string) {
	t.Helper()
	for _, root := range []string{r.dir, r.path} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "pwned" {
				t.Errorf("%q: %s exists", with, path)
			}
			return nil
		})
	}
}

// A built tare is taken as it is given: the program, a wheel, or the archive of a release. Nothing is compiled.
func TestActionTakesABuiltProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds tare, and carries out an action")
	}
	t.Parallel()
	dir, path := t.TempDir(), t.TempDir()
	scripts := filepath.Join(dir, "tare_mesh-0.1.0.data", "scripts")
	must.OK(t, os.MkdirAll(scripts, 0o755))
	must.OK(t, os.Mkdir(filepath.Join(path, "tools"), 0o755))
	must.OK(t, programtest.Build(scripts, "tare", "tare-agent"))
	command(t, ".", "cp", "-R", "../../tools/ci", filepath.Join(path, "tools"))
	command(t, dir, "tar", "-czf", "tare_0.1.0_linux_amd64.tar.gz", "-C", scripts, ".")
	command(t, dir, "python3", "-m", "zipfile", "-c", "tare_mesh-0.1.0-py3-none-any.whl", "tare_mesh-0.1.0.data")
	breached := recorded(t, 0.1, 0.005)
	for built, code := range map[string]int{
		filepath.Join(scripts, "tare"): console.Gate, filepath.Join(dir, "tare_0.1.0_linux_amd64.tar.gz"): console.Gate,
		filepath.Join(dir, "tare_mesh-0.1.0-py3-none-any.whl"): console.Gate,
		filepath.Join(dir, "absent.whl"):                       console.Failed, filepath.Join(dir, "absent"): 127,
	} {
		g := &gitHub{}
		r := play(t, path, map[string]string{"tare": built, "from": breached, "gates": gate}, job(t, g, pullRequest))
		if r.failed != "Compare" || r.code != code || code == console.Gate && (len(r.used) != 1 || len(g.comments) != 1) {
			t.Errorf("%s: step %q, exit code %d, want %d, steps with uses %+v, %d comments:\n%s", built, r.failed, r.code, code, r.used, len(g.comments), r.log.String())
		}
	}
}

func command(t *testing.T, dir string, words ...string) {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", words, err, out)
	}
}

// servedBy is a server that counts to TURNS in each request, and endingBy a program that ends after as many.
const (
	servedBy = `#!/usr/bin/env python3
import http.server, sys
class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        for _ in range(TURNS): pass
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server).serve_forever()
`
	endingBy = "#!/bin/sh\ni=0; while [ $i -lt TURNS ]; do i=$((i+1)); done\n"
)

// The job of the tutorial, as it is written, in a repository that has nothing of tare: the change plants twice the CPU in its
// server and in its command, which is measured.
func TestTutorialJob(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("measures for some minutes what TestABRuns measures without the action: make e2e-all runs it")
	}
	path, origin, work := source(t), t.TempDir(), filepath.Join(t.TempDir(), "work")
	must.File(t, origin, "Makefile", "build:\n\tmkdir -p bin\n\tinstall server tool bin\n")
	git := []string{"git", "-c", "user.name=a", "-c", "user.email=a@example.com"}
	command(t, origin, append(git, "init", "-q", "-b", "main")...)
	for _, turns := range []string{"20000", "40000"} {
		must.File(t, origin, "server", strings.ReplaceAll(servedBy, "TURNS", turns))
		must.File(t, origin, "tool", strings.ReplaceAll(endingBy, "TURNS", turns))
		command(t, origin, append(git, "add", ".")...)
		command(t, origin, append(git, "commit", "-q", "-m", turns)...)
		if turns == "20000" {
			command(t, origin, append(git, "switch", "-q", "-c", "change")...)
		}
	}
	page := must.Get(os.ReadFile("../../docs/tutorial/ab-in-ci.md"))(t)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	var workflow struct {
		Jobs map[string]struct {
			Steps []actionStep `yaml:"steps"`
		} `yaml:"jobs"`
	}
	must.OK(t, yaml.Unmarshal([]byte(blocks[0][1]), &workflow))
	g := &gitHub{}
	env := job(t, g, pullRequest)
	env["RUNNER_TEMP"] = t.TempDir()
	var server map[string]string
	for i, s := range workflow.Jobs["measure"].Steps {
		r := &runner{t: t, path: path, dir: work, env: env, outputs: map[string]map[string]string{}}
		switch {
		case s.Uses == "./.tare":
			server = s.With
		case s.Uses == "" && i > 0:
			if s.Shell = "bash"; s.Name != "Build both" {
				t.Errorf("step %q is new", s.Name)
			}
			if r.run(t.Context(), i, s); r.failed != "" {
				t.Fatalf("step %q: exit code %d\n%s", s.Name, r.code, r.log.String())
			}
		case s.With["repository"] == "": // the pull request
			command(t, ".", "git", "clone", "-q", "-b", "change", origin, work)
		default:
			if repository := r.expand(s.With["repository"]); repository != "you/tare" || s.With["path"] != ".tare" {
				t.Errorf("checkout of %q into %q", repository, s.With["path"])
			}
			must.OK(t, os.Symlink(path, filepath.Join(work, ".tare")))
		}
	}
	var tool map[string]string // the fields that the page gives in place of the server's
	must.OK(t, yaml.Unmarshal([]byte(blocks[1][1]), &tool))
	for i, title := range []string{"server", "tool"} {
		inputs := maps.Clone(server)
		if title == "tool" {
			maps.Copy(inputs, tool)
		}
		inputs["title"], inputs["out"] = title, "tare-"+title
		r := playIn(t, work, filepath.Join(work, ".tare"), inputs, env)
		t.Log(r.log.String())
		if r.failed != "Compare" || r.code != console.Gate || r.outputs["compare"]["outcome"] != "breached" {
			t.Errorf("%s: step %q, exit code %d, %v", title, r.failed, r.code, r.outputs)
		}
		if len(g.comments) != i+1 || !strings.HasPrefix(g.comments[i].Body, "<!-- tare: "+title+" -->\n### tare: 1 gate breached") {
			t.Errorf("%s: comments %+v", title, g.comments)
		}
		if _, err := os.Stat(filepath.Join(work, "tare-"+title, "run", "plan.json")); err != nil {
			t.Errorf("%s: the artifact has no results: %v", title, err)
		}
	}
}

// The script of the GitLab template, with its variables as the runner sets them.
func TestGitLabTemplate(t *testing.T) {
	path := source(t)
	text := must.Get(os.ReadFile("../../templates/gitlab-ab.yml"))(t)
	var file map[string]struct {
		Variables map[string]string `yaml:"variables"`
		Script    []string          `yaml:"script"`
		Artifacts struct {
			Paths   []string          `yaml:"paths"`
			Reports map[string]string `yaml:"reports"`
		} `yaml:"artifacts"`
	}
	must.OK(t, yaml.Unmarshal(text, &file))
	j := file[".tare-ab"]
	dir := t.TempDir()
	cmd := exec.Command("bash", "-e", "-c", strings.Join(j.Script, "\n"))
	cmd.Dir, cmd.Env = dir, os.Environ()
	for name, value := range j.Variables {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "TARE_SOURCE="+path, "TARE_FROM="+recorded(t, 0.1, 0.005), "TARE_GATES="+gate)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 4 {
		t.Errorf("%v\n%s", err, out)
	}
	junit, err := os.ReadFile(filepath.Join(dir, j.Artifacts.Reports["junit"]))
	if err != nil || !strings.Contains(string(junit), `failures="1"`) || len(j.Artifacts.Paths) != 1 {
		t.Errorf("%v\n%s", err, junit)
	}
}
