package cluster

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// Recorder collects the steps of a dry run, in order: manifests, and commands with the same effect.
// The methods that add steps do nothing on a nil Recorder.
type Recorder struct {
	context string // of the kubeconfig, set by Connect

	mu    sync.Mutex
	steps []Step
}

// Step is one action of a dry run.
type Step struct {
	Command  []string  // with its arguments
	Manifest *Manifest // the command's standard input, nil for none
	Unknown  error     // why the manifest is not known, nil if it is
}

// Steps returns the steps recorded so far.
func (r *Recorder) Steps() []Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Step(nil), r.steps...)
}

// Add records a step.
func (r *Recorder) Add(s Step) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, s)
}

// Kubectl records a kubectl command on this cluster.
func (r *Recorder) Kubectl(args ...string) {
	if r != nil {
		r.Add(Step{Command: r.kubectl(args)})
	}
}

// Manifest records a kubectl command that reads a manifest.
func (r *Recorder) Manifest(m Manifest, args ...string) {
	if r != nil {
		r.Add(Step{Command: r.kubectl(args), Manifest: &m})
	}
}

func (r *Recorder) kubectl(args []string) []string {
	command := []string{"kubectl"}
	if r.context != "" {
		command = append(command, "--context", r.context)
	}
	return append(command, args...)
}

// WriteTo prints the steps as one YAML stream that kubectl can apply: the manifests as documents, the
// commands as comments.
func (r *Recorder) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	for _, s := range r.Steps() {
		if s.Manifest != nil {
			b.WriteString("---\n")
		}
		if len(s.Command) > 0 {
			fmt.Fprintf(&b, "# $ %s\n", strings.Join(lists.Map(s.Command, printable.ShellWord), " "))
		}
		if s.Manifest != nil {
			b.Write(s.Manifest.YAML)
		}
	}
	return b.WriteTo(w)
}

// kubectlArgs are kubectl's arguments that name an object: [-n shop] deployment.apps/cart.
func kubectlArgs(r Ref) []string {
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
