package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/cli/console"
)

// commandGroups are the commands by what they are for, the most used ones first.
var commandGroups = []struct {
	name     string
	commands []string
}{
	{"measure", []string{"weigh", "ab", "run", "load"}},
	{"read", []string{"report", "compare", "plot", "serve", "watch"}},
	{"decide", []string{"size", "forecast"}},
	{"before", []string{"plan", "doctor"}},
	{"clusters", []string{"cluster", "mesh", "services"}},
	{"others", []string{"import", "verify", "list", "schema", "completion", "version"}},
}

// helpOfRoot prints the commands in groups, and the first ones to try.
func helpOfRoot(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		w := cmd.OutOrStdout()
		if cmd == root {
			writeHelp(w, cmd.CommandPath())
			return
		}
		wholeHelp(cmd)
	})
}

// wholeHelp prints the explanation of a command and all of its flags.
func wholeHelp(cmd *cobra.Command) {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s\n\n", strings.TrimSpace(console.Paragraphs(cmp.Or(cmd.Long, cmd.Short), console.Columns(w))))
	_ = cmd.UsageFunc()(cmd) // a writer that fails has failed before
}

func writeHelp(w io.Writer, program string) {
	fmt.Fprint(w, "tare measures what a sidecar, a mesh or a proxy adds to a program: CPU, memory,\ntime and failures, as differences with intervals.\n\n")
	for _, g := range commandGroups {
		fmt.Fprintf(w, "  %-9s %s\n", g.name, strings.Join(g.commands, ", "))
	}
	fmt.Fprintf(w, `
  %[1]s weigh -- ./server {port}      what two Envoy sidecars add to your program
  %[1]s run examples/quickstart.yaml  run an experiment file and print the report
  %[1]s report                        print the report of the newest run again

`+"`%[1]s COMMAND --help`"+` explains a command; --version prints the version.
`, program)
}

// helpInShort gives a command a short help: its first paragraph, its first examples, and flags with a few words each.
// --help-all prints the whole.
func helpInShort(cmd *cobra.Command, examples int, flags [][2]string) {
	all := false
	cmd.Flags().BoolVar(&all, "help-all", false, "print every flag, with explanations")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all {
			wholeHelp(cmd)
			return nil
		}
		return run(cmd, args)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		w := cmd.OutOrStdout()
		first, _, _ := strings.Cut(cmd.Long, "\n\n")
		lines := strings.Split(cmd.Example, "\n")
		fmt.Fprintf(w, "%s\n\nUsage: %s\n\n%s\n\n", console.Paragraphs(first, console.Columns(w)), cmd.UseLine(), strings.Join(lines[:min(examples, len(lines))], "\n"))
		rest := -len(flags) - 1 // and --help-all
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				rest++
			}
		})
		for _, f := range append(flags, [2]string{"help-all", fmt.Sprintf("%d more flags, and explanations", rest)}) {
			fmt.Fprintf(w, "  --%-12s %s\n", f[0], f[1])
		}
	})
}
