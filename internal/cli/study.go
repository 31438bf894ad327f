package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/session"
)

// ExperimentOptions are the flags of every command that reads an experiment file.
type ExperimentOptions struct{ session.Options }

// Register adds the flags to a command.
func (o *ExperimentOptions) Register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.Set, "set", nil, "override a field of the file, such as `blocks=3` or factors.rate=[100,200]; may be repeated")
	f.StringArrayVar(&o.Meshes, "mesh", nil, "add a mesh definition from a `file`, to be used by the name in it; may be repeated")
	_ = cmd.MarkFlagFilename("mesh", "yaml", "yml")
}

// RegisterCluster adds the flags that choose a cluster, in place of the file's platform.kubeconfig and platform.context.
func (o *ExperimentOptions) RegisterCluster(cmd *cobra.Command) {
	field := func(name string) func(string) error {
		return func(value string) error {
			text, err := json.Marshal(value) // quoted YAML
			o.Set = append(o.Set, "platform."+name+"="+string(text))
			return err
		}
	}
	cmd.Flags().Func("kubeconfig", "kubeconfig of the cluster, in place of the file's", field("kubeconfig"))
	cmd.Flags().Func("context", "context in it, in place of the file's", field("context"))
}

// ChooseMeshes compares the embedded meshes that --mesh names, instead of the file's meshes. All other values are files.
func (o *ExperimentOptions) ChooseMeshes() {
	names, known := []string{"none"}, mesh.Names()
	o.Meshes = slices.DeleteFunc(o.Meshes, func(value string) bool {
		if !slices.Contains(known, value) {
			return false
		}
		if !slices.Contains(names, value) {
			names = append(names, value)
		}
		return true
	})
	if len(names) > 1 {
		o.Set = append(o.Set, "factors.mesh=["+strings.Join(names, ", ")+"]")
	}
}

// Read reads an experiment file and prints its notes.
func (c *CommandLine) Read(ctx context.Context, file string, o ExperimentOptions) (*session.Study, error) {
	s, err := c.program.Read(ctx, file, o.Options)
	if err != nil {
		return nil, err
	}
	c.printNotes(s)
	return s, nil
}

func (c *CommandLine) printNotes(s *session.Study) {
	for _, note := range s.Notes {
		c.Notef("%s", note)
	}
}

// seedWords formats the seed of the plan, and how to run the same plan again.
func seedWords(s *session.Study) string {
	if !s.Drawn {
		return fmt.Sprintf("seed %d", s.Plan.Seed)
	}
	repeat := fmt.Sprintf("--set seed=%d", s.Plan.Seed)
	if s.Experiment.Order != "" {
		repeat += " --set order=" + s.Experiment.Order
	}
	return fmt.Sprintf("seed %d (random; repeat this plan with %s)", s.Plan.Seed, repeat)
}
