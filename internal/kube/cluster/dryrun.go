package cluster

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Recorder writes down what a dry run would do, in order: manifests, and commands that do the same by hand.
type Recorder struct {
	mu    sync.Mutex
	steps []Step
}

// Step is one thing that a dry run would do.
type Step struct {
	Command  []string  // as kubectl would be told
	Manifest *Manifest // what the command reads from standard input; nil for none
}

// Steps is what was recorded so far.
func (r *Recorder) Steps() []Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Step(nil), r.steps...)
}

// Add records a step that another room would have carried out.
func (r *Recorder) Add(s Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, s)
}

// WriteTo prints what was recorded as one YAML stream that kubectl can apply: the manifests as documents, the
// commands as comments.
func (r *Recorder) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	for _, s := range r.Steps() {
		if s.Manifest != nil {
			b.WriteString("---\n")
		}
		if len(s.Command) > 0 {
			fmt.Fprintf(&b, "# $ %s\n", quoted(s.Command))
		}
		if s.Manifest != nil {
			b.Write(s.Manifest.YAML)
		}
	}
	return b.WriteTo(w)
}

// Record writes down, in a dry run, what kubectl would be told.
func (c *Cluster) Record(words ...string) {
	if c.DryRun() {
		c.recorder.Add(Step{Command: c.kubectl(words...)})
	}
}

// RecordStep writes down, in a dry run, a step that is no kubectl's.
func (c *Cluster) RecordStep(s Step) {
	if c.DryRun() {
		c.recorder.Add(s)
	}
}

// RecordManifest writes down, in a dry run, a manifest and what kubectl would be told to do with it.
func (c *Cluster) RecordManifest(m Manifest, words ...string) {
	if c.DryRun() {
		c.recorder.Add(Step{Command: c.kubectl(words...), Manifest: &m})
	}
}

// quoted is a command as a shell reads it.
func quoted(words []string) string {
	var out []string
	for _, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$`!*?[](){}<>|&;#~") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// kubectl is a command on this cluster.
func (c *Cluster) kubectl(words ...string) []string {
	command := []string{"kubectl"}
	if c.context != "" {
		command = append(command, "--context", c.context)
	}
	return append(command, words...)
}

// inNamespace is kubectl's way to name an object: [-n shop] deployment.apps/cart.
func inNamespace(r Ref) []string {
	name := strings.ToLower(r.Kind.Kind)
	if r.Kind.Group != "" {
		name += "." + r.Kind.Group
	}
	name += "/" + r.Name
	if r.Namespace == "" {
		return []string{name}
	}
	return []string{"-n", r.Namespace, name}
}
