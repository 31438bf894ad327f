package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/examples"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
)

// recentRuns are the directories in runs/, the newest first.
func recentRuns() []string {
	dirs, _ := newestFirst()
	return dirs
}

func gateMetrics() []string {
	return printable.Texts(metric.All(), func(m metric.Metric) string { return m.Name })
}

// completed are the arguments and flags that a shell completes, by command.
var completed = []struct {
	commands []string
	flag     string // "" is the arguments
	words    func() []string
}{
	{[]string{"run", "plan", "doctor", "ab"}, "", examples.Names},
	{[]string{"report", "compare", "plot", "verify", "watch", "services", "size", "forecast"}, "", recentRuns},
	{[]string{"weigh", "ab"}, "mesh", mesh.Names},
	{[]string{"weigh"}, "sidecar", mesh.Names},
	{[]string{"weigh"}, "gateway", mesh.Names},
	{[]string{"ab", "compare"}, "gate", gateMetrics},
}

// completeWords sets what a shell completes for the commands of root. Names of files complete too.
func completeWords(root *cobra.Command) {
	for _, of := range completed {
		complete := func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return slices.DeleteFunc(slices.Clone(of.words()), func(word string) bool { return !strings.HasPrefix(word, begun) }), cobra.ShellCompDirectiveDefault
		}
		for _, cmd := range root.Commands() {
			switch {
			case !slices.Contains(of.commands, cmd.Name()):
			case of.flag == "":
				cmd.ValidArgsFunction = complete
			default:
				_ = cmd.RegisterFlagCompletionFunc(of.flag, complete)
			}
		}
	}
}
