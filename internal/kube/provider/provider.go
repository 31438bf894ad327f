// Package provider creates and deletes Kubernetes clusters on this machine with the command-line programs of their
// providers, and prints the commands that create one in a cloud.
//
// A provider is data: programs, arguments, and explanations of their errors. Nothing goes through a shell. tare deletes
// only clusters of which it has a record, written when it created them.
package provider

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
)

// Settings are the choices of a user. An empty one is the provider's default.
type Settings struct {
	Name    string `json:"name"`
	Nodes   int    `json:"nodes"`
	Machine string `json:"machine,omitempty"` // machine type of the nodes
	Zone    string `json:"zone,omitempty"`    // zone, region or location
	Version string `json:"version,omitempty"` // of Kubernetes, without v
	Project string `json:"project,omitempty"`
	// Kubeconfig is the file that receives the context.
	Kubeconfig string `json:"kubeconfig"`
}

// Provider is a table entry: how its programs create, list and delete a cluster.
type Provider struct {
	Name, Doc string
	Programs  []string // that must be on PATH
	Install   string   // hint without them
	MaxNodes  int      // 0: no limit
	Default   Settings // for empty settings
	Needs     []string // settings that must be given
	Has       []string // settings beside name and nodes
	// Cloud providers have nothing below but Create, which users run themselves.
	Cloud bool

	List    Call
	Listed  string // regular expression: List prints it if the cluster exists
	Other   string // regular expression: List prints it if a cluster prevents others, whose name is the first group
	Create  []Call
	Delete  []Call
	Context string // of the cluster
	// Separate is a file in which Create leaves the kubeconfig, whose context is then added to the user's.
	// SeparateFrom prints its path instead.
	Separate     string
	SeparateFrom *Call
	State        string // directory that is removed with the cluster
	// Outlives means that parts of a cluster can outlive its entry in List, so that Delete runs without it, too.
	Outlives bool

	Problems []Problem
}

// Call is one command. Each element of Args is a group of arguments: a group with an empty setting is left out.
// Settings are written ${name}, and ${agents} is one node less.
type Call struct {
	Program string
	Args    [][]string
	Input   string // template of standard input, with the settings as its value
	Env     []string
	// Absent is a regular expression: with this output, a failed command had nothing to delete.
	Absent string
}

// Problem explains an error of a program by a part of its output.
type Problem struct {
	Output string // regular expression
	Text   string
	Hint   string
}

// Find returns the provider of a name.
func Find(name string) (Provider, error) {
	var names []string
	for _, p := range Providers() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Provider{}, hint.New("providers: "+strings.Join(names, ", "), "unknown provider %q", name)
}

// Creation returns the calls of [Clusters.Create], or those that create a cluster in a cloud.
func (p Provider) Creation() []Call {
	if p.Cloud {
		return p.Create
	}
	calls := append([]Call{p.List}, p.Create...)
	if p.SeparateFrom != nil {
		calls = append(calls, *p.SeparateFrom)
	}
	return calls
}

// Deletion returns the calls of [Clusters.Delete].
func (p Provider) Deletion() []Call { return append([]Call{p.List}, p.Delete...) }

// optional are the settings that a provider may lack.
var optional = []string{"machine", "zone", "version", "project"}

// A setting never begins with a dash: it cannot become an option.
var (
	nameForm    = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$`)
	settingForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.:_-]{0,62}$`) // with the colon of example.com:project
)

// Complete fills in defaults and checks the settings.
func (p Provider) Complete(s Settings) (Settings, error) {
	s.Nodes = cmp.Or(s.Nodes, max(p.Default.Nodes, 1))
	s.Machine = cmp.Or(s.Machine, p.Default.Machine)
	s.Version = strings.TrimPrefix(s.Version, "v")
	if !nameForm.MatchString(s.Name) {
		return s, hint.New("write 1 to 32 lower-case letters, digits and dashes, beginning with a letter", "--name %q is not a name of a cluster", s.Name)
	}
	if s.Nodes < 1 {
		return s, hint.New("write 1 or more", "--nodes %d is not a number of nodes", s.Nodes)
	}
	if p.MaxNodes > 0 && s.Nodes > p.MaxNodes {
		return s, hint.New("use another provider for more", "--nodes %d: the maximum of %s is %d", s.Nodes, p.Name, p.MaxNodes)
	}
	for _, name := range optional {
		v := s.value(name)
		switch {
		case v == "" && slices.Contains(p.Needs, name):
			return s, hint.New("add --"+name, "%s needs --%s", p.Name, name)
		case v != "" && !slices.Contains(p.Has, name):
			return s, hint.New("leave it out", "--%s: %s has no such setting", name, p.Name)
		case v != "" && !settingForm.MatchString(v):
			return s, hint.New("write letters, digits, dots, colons and dashes", "--%s %q cannot be used", name, v)
		}
	}
	return s, nil
}

func (p Provider) installed() error {
	for _, program := range p.Programs {
		if _, err := exec.LookPath(program); err != nil {
			return hint.New(p.Install, "%s is not on PATH", program)
		}
	}
	return nil
}

// Commands prints the commands that create or delete a cluster, one a line, for pasting into a shell.
func (p Provider) Commands(s Settings, calls []Call) (string, error) {
	var b strings.Builder
	for _, c := range calls {
		cmd, err := c.command(s)
		if err != nil {
			return "", err
		}
		b.WriteString(cmd.String())
		if c.Input != "" {
			text, err := c.input(s)
			if err != nil {
				return "", err
			}
			b.WriteString(" <<'END'\n" + strings.TrimRight(text, "\n") + "\nEND")
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

func (c Call) command(s Settings) (proc.Command, error) {
	cmd := proc.Command{Path: c.Program, Env: []string{"KUBECONFIG=" + s.Kubeconfig}}
	for _, e := range c.Env {
		cmd.Env = append(cmd.Env, expand(e, s))
	}
	for _, group := range c.Args {
		if slices.ContainsFunc(group, func(a string) bool { return lacks(a, s) }) {
			continue
		}
		for _, a := range group {
			cmd.Args = append(cmd.Args, expand(a, s))
		}
	}
	if c.Input != "" {
		text, err := c.input(s)
		if err != nil {
			return cmd, err
		}
		cmd.Stdin = strings.NewReader(text)
	}
	return cmd, nil
}

func (c Call) input(s Settings) (string, error) {
	t, err := template.New("input").Parse(c.Input)
	if err != nil {
		return "", fmt.Errorf("input of %s: %w", c.Program, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, s); err != nil {
		return "", fmt.Errorf("input of %s: %w", c.Program, err)
	}
	return b.String(), nil
}

func expand(text string, s Settings) string { return os.Expand(text, s.value) }

// lacks reports whether an argument uses a setting that is empty.
func lacks(argument string, s Settings) bool {
	empty := false
	os.Expand(argument, func(name string) string {
		empty = empty || s.value(name) == ""
		return ""
	})
	return empty
}

func (p Provider) exists(output string, s Settings) bool {
	listed := os.Expand(p.Listed, func(name string) string { return regexp.QuoteMeta(s.value(name)) })
	return regexp.MustCompile(`(?m)` + listed).MatchString(output)
}

// value returns a setting by its flag's name.
func (s Settings) value(name string) string {
	switch name {
	case "name":
		return s.Name
	case "nodes":
		return strconv.Itoa(s.Nodes)
	case "agents":
		return strconv.Itoa(s.Nodes - 1)
	case "machine":
		return s.Machine
	case "zone":
		return s.Zone
	case "version":
		return s.Version
	case "project":
		return s.Project
	case "kubeconfig":
		return s.Kubeconfig
	}
	return ""
}

// other returns the name of a cluster that prevents others, by the output of List, or "".
func (p Provider) other(output string) string {
	if found := regexp.MustCompile(`(?m)` + p.Other).FindStringSubmatch(output); p.Other != "" && found != nil {
		return found[1]
	}
	return ""
}

// explain returns the problem that a program's output shows.
func (p Provider) explain(output string) (Problem, bool) {
	for _, known := range p.Problems {
		if regexp.MustCompile(`(?i)` + known.Output).MatchString(output) {
			return known, true
		}
	}
	return Problem{}, false
}

// DefaultKubeconfig is the file that kubectl writes to: the first of $KUBECONFIG, then ~/.kube/config.
func DefaultKubeconfig() (string, error) {
	for _, path := range filepath.SplitList(os.Getenv("KUBECONFIG")) {
		if path != "" {
			return filepath.Abs(path)
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the kubeconfig: %w", err)
	}
	return filepath.Join(home, ".kube", "config"), nil
}
