package action_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/test/must"
)

// metadata is the part of action.yml that a runner uses.
type metadata struct {
	Inputs map[string]struct {
		Description string `yaml:"description"`
		Default     string `yaml:"default"`
	} `yaml:"inputs"`
	Outputs map[string]struct {
		Value string `yaml:"value"`
	} `yaml:"outputs"`
	Runs struct {
		Using string       `yaml:"using"`
		Steps []actionStep `yaml:"steps"`
	} `yaml:"runs"`
}

type actionStep struct {
	ID    string            `yaml:"id"`
	Name  string            `yaml:"name"`
	If    string            `yaml:"if"`
	Uses  string            `yaml:"uses"`
	With  map[string]string `yaml:"with"`
	Shell string            `yaml:"shell"`
	Env   map[string]string `yaml:"env"`
	Run   string            `yaml:"run"`
}

func readAction(t *testing.T) metadata {
	t.Helper()
	text := must.Get(os.ReadFile("../../action.yml"))(t)
	var m metadata
	must.OK(t, yaml.Unmarshal(text, &m))
	return m
}

// runner carries out the steps of a composite action as GitHub's runner does. Expressions are replaced before a step
// begins, each script is a file that bash reads, and outputs come from the file in GITHUB_OUTPUT.
type runner struct {
	t       *testing.T
	path    string            // of the action
	dir     string            // workspace
	inputs  map[string]string // with:
	env     map[string]string // of the job
	outputs map[string]map[string]string
	used    []actionStep // steps with uses, expressions replaced
	log     strings.Builder
	summary string
	failed  string // name of the first failed step
	code    int    // its exit code
}

// play runs the action with these inputs in an empty workspace.
func play(t *testing.T, path string, inputs, env map[string]string) *runner {
	t.Helper()
	return playIn(t, t.TempDir(), path, inputs, env)
}

func playIn(t *testing.T, dir, path string, inputs, env map[string]string) *runner {
	t.Helper()
	r := &runner{t: t, path: path, dir: dir, inputs: map[string]string{}, env: env, outputs: map[string]map[string]string{}}
	m := readAction(t)
	for name, input := range m.Inputs {
		r.inputs[name] = r.expand(input.Default)
	}
	for name, value := range inputs {
		if _, known := m.Inputs[name]; !known {
			t.Fatalf("action.yml has no input %q", name)
		}
		r.inputs[name] = r.expand(value)
	}
	for i, s := range m.Runs.Steps {
		condition := s.If
		if condition == "" {
			condition = "success()"
		}
		if !r.holds(condition) {
			continue
		}
		for key, value := range s.With {
			s.With[key] = r.expand(value)
		}
		if s.Uses != "" {
			r.used = append(r.used, s)
			continue
		}
		r.run(t.Context(), i, s)
	}
	return r
}

func (r *runner) run(ctx context.Context, i int, s actionStep) {
	r.t.Helper()
	if s.Shell != "bash" {
		r.t.Fatalf("step %d: shell %q", i, s.Shell)
	}
	files := r.t.TempDir()
	script, output, summary := filepath.Join(files, "script.sh"), filepath.Join(files, "output"), filepath.Join(files, "summary")
	for path, text := range map[string]string{script: r.expand(s.Run), output: "", summary: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script)
	cmd.Dir = r.dir
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": r.path,
		"GITHUB_OUTPUT": output, "GITHUB_STEP_SUMMARY": summary, "GITHUB_WORKSPACE": r.dir,
	}
	maps.Copy(env, r.env)
	for name, value := range s.Env {
		env[name] = r.expand(value)
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = &r.log, &r.log
	fmt.Fprintf(&r.log, "--- %s\n", s.Name)
	if err := cmd.Run(); err != nil && r.failed == "" {
		r.failed, r.code = s.Name, cmd.ProcessState.ExitCode()
	}
	text, err := os.ReadFile(output)
	if err != nil {
		r.t.Fatal(err)
	}
	outputs := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\n"), "=")
		if !ok {
			r.t.Errorf("step %q: line %q of GITHUB_OUTPUT", s.Name, line)
		}
		outputs[name] = value
	}
	r.outputs[s.ID] = outputs
	if text, err := os.ReadFile(summary); err == nil {
		r.summary += string(text)
	}
}

var expression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)

// expand replaces expressions by their values, as text.
func (r *runner) expand(text string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string { return r.value(expression.FindStringSubmatch(e)[1]) })
}

// value of a name. Names that action.yml does not have are a mistake.
func (r *runner) value(name string) string {
	switch {
	case name == "github.token":
		return "secret-token"
	case name == "github.action_path":
		return r.path
	case name == "github.base_ref":
		return "main"
	case name == "vars.TARE_REPOSITORY":
		return "you/tare"
	case name == "runner.temp":
		return r.env["RUNNER_TEMP"]
	case strings.HasPrefix(name, "inputs."):
		return r.inputs[strings.TrimPrefix(name, "inputs.")]
	}
	if m := regexp.MustCompile(`^steps\.([a-z]+)\.outputs\.([a-z]+)$`).FindStringSubmatch(name); m != nil {
		return r.outputs[m[1]][m[2]]
	}
	r.t.Fatalf("unknown expression %q", name)
	return ""
}

// holds evaluates a condition: terms joined by &&, of which a comparison with a text is one.
func (r *runner) holds(condition string) bool {
	if m := expression.FindStringSubmatch(condition); m != nil {
		condition = m[1]
	}
	always := false
	for term := range strings.SplitSeq(condition, " && ") {
		switch {
		case term == "always()":
			always = true
			continue
		case term == "success()":
			continue
		}
		m := regexp.MustCompile(`^(\S+) (==|!=) '([^']*)'$`).FindStringSubmatch(term)
		if m == nil {
			r.t.Fatalf("unknown condition %q", term)
		}
		if (r.value(m[1]) == m[3]) != (m[2] == "==") {
			return false
		}
	}
	return always || r.failed == ""
}
