package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/examples"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
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

// groupedUsage prints a command's flags in groups: the first group, the examples, the
// other groups.
func groupedUsage(groups []flagGroup) func(*cobra.Command) error {
	return func(cmd *cobra.Command) error {
		w := cmd.OutOrStderr()
		width := console.Columns(w)
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n%s\n", console.Paragraphs("  "+cmd.UseLine(), width))
		for i, g := range groups {
			set := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
			set.SortFlags = false
			for _, name := range g.names {
				set.AddFlag(cmd.Flags().Lookup(name))
			}
			fmt.Fprintf(&b, "\n%s:\n%s", g.title, set.FlagUsagesWrapped(width))
			if i == 0 {
				fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
			}
		}
		_, err := fmt.Fprint(w, b.String())
		return err
	}
}

// foldedUsage prints what cobra prints, with explanations of flags folded to the columns of the terminal.
func foldedUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	width := console.Columns(w)
	var b strings.Builder
	b.WriteString("Usage:")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "\n%s", console.Paragraphs("  "+cmd.UseLine(), width))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n  %s [command]", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\n\nExamples:\n%s", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n\nAvailable Commands:")
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&b, "\n%s", console.Paragraphs(fmt.Sprintf("  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short), width))
		}
	}
	for _, of := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"Flags", cmd.LocalFlags()}, {"Global Flags", cmd.InheritedFlags()}} {
		if of.flags.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n\n%s:\n%s", of.title, strings.TrimRight(of.flags.FlagUsagesWrapped(width), "\n"))
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\n`%s [command] --help` explains a command.", cmd.CommandPath())
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}

// otherNames are names that other commands and tools have for a flag.
var otherNames = map[string]string{"time": "duration", "duration": "time", "threads": "workers", "concurrency": "connections", "qps": "rate", "output": "format"}

// flagError makes a mistake in a flag a usage error, with the flag that was meant.
func flagError(cmd *cobra.Command, err error) error {
	if usage, ok := refusedValue(err); ok {
		return usage
	}
	help := "`" + cmd.CommandPath() + " --help` lists the flags"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		meant := otherNames[unknown.GetSpecifiedName()]
		near, ok := strict.Nearest(unknown.GetSpecifiedName(), names)
		if slices.Contains(names, meant) {
			near, ok = meant, true
		}
		if ok {
			help = "did you mean --" + near + "? " + help
		}
	}
	if unknown != nil && unknown.GetSpecifiedShortnames() == "X" && cmd.Flags().Lookup("method") != nil { // of curl
		help = "did you mean -m? " + help
	}
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &invalid) && errors.As(err, &number) {
		kind := "a number"
		if number.Func != "ParseFloat" {
			kind = "a whole number"
		}
		err = fmt.Errorf("--%s is %q, not %s", invalid.GetFlag().Name, invalid.GetValue(), kind)
		if errors.Is(number, strconv.ErrRange) {
			err = fmt.Errorf("--%s is %q, which is too large", invalid.GetFlag().Name, invalid.GetValue())
		}
	}
	return hint.Usage(err, help)
}

// refuseUnknown is the argument check of a command that only groups others: its first
// argument is a mistyped command.
func refuseUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	names := lists.Map(lists.Where(cmd.Commands(), (*cobra.Command).IsAvailableCommand), (*cobra.Command).Name)
	return hint.Usage(fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath()), strict.DidYouMean(args[0], names))
}

// recentRuns are the directories in runs/, the newest first.
func recentRuns() []string {
	dirs, _ := newestFirst()
	return dirs
}

func gateMetrics() []string {
	return lists.Map(metric.All(), func(m metric.Metric) string { return m.Name })
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

type choiceFlag struct {
	value *string
	name  string // of the flag
	names []string
}

// choice adds a flag with one of several values, and their completion.
func choice(cmd *cobra.Command, value *string, name, usage string, names []string) {
	cmd.Flags().Var(choiceFlag{value, name, names}, name, usage)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

func (c choiceFlag) String() string {
	if c.value == nil { // of pflag, for the zero value
		return ""
	}
	return *c.value
}

func (choiceFlag) Type() string { return "string" }

func (c choiceFlag) Set(text string) error {
	if !slices.Contains(c.names, text) {
		one := "one of "
		if len(c.names) == 1 {
			one = "--" + c.name + " "
		}
		return hint.Usage(fmt.Errorf("--%s is %q", c.name, text), "write "+one+strings.Join(c.names, ", "))
	}
	*c.value = text
	return nil
}

// refusedValue returns the error of a flag's value that is complete by itself.
func refusedValue(err error) (usage *hint.UsageError, ok bool) {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	return usage, ok && errors.As(invalid.Unwrap(), &usage)
}

// outcomes of an undecided gate.
var outcomes = []string{"pass", "fail"}

// writeTo writes to a file, or without one to standard output.
func (c *CommandLine) writeTo(file string, write func(io.Writer) error) error {
	if file == "" {
		return write(c.Out)
	}
	return outfile.Write(file, 0o644, write)
}

// orNewest returns the named directories, without any the newest run. A command that is handed over gets its directory too.
func (c *CommandLine) orNewest(dirs []string) ([]string, error) {
	if len(dirs) > 0 {
		return dirs, nil
	}
	dir, err := c.newest()
	if err != nil {
		return nil, err
	}
	c.handOver.args = append(c.handOver.args, dir)
	return []string{dir}, nil
}

// curves returns the named directories, without any the newest run with several rates. If there is none, the hint is the command
// that measures a first curve.
func (c *CommandLine) curves(dirs []string, measure string) ([]string, error) {
	if len(dirs) > 0 {
		return dirs, nil
	}
	dirs, err := newestFirst()
	if err == nil {
		if i := slices.IndexFunc(dirs, severalRates); i >= 0 {
			c.Notef("newest run with several rates: %s", dirs[i])
			return dirs[i : i+1], nil
		}
		err = hint.Usage(errors.New("no directory is named, and no run in runs/ has several rates"), "name the directory that tare run printed")
	}
	return nil, hint.Usage(err, "measure a curve first: "+measure+" --out runs/curve")
}

// severalRates reports whether the treatments of a run differ in their rate.
func severalRates(dir string) bool {
	d, err := result.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	rates := map[experiment.Rate]bool{}
	for _, t := range d.Plan().Treatments {
		rates[t.Levels.Rate] = true
	}
	return len(rates) > 1
}

// newest returns the run in runs/ that began last, and prints its directory to standard error.
func (c *CommandLine) newest() (string, error) {
	dirs, err := newestFirst()
	if err != nil {
		return "", err
	}
	c.Notef("newest run: %s", dirs[0])
	return dirs[0], nil
}

// before returns the newest of the other runs of a run's experiment, and prints its directory to standard error.
func (c *CommandLine) before(run string) (string, error) {
	dirs, err := newestFirst()
	if err != nil {
		return "", err
	}
	name := experimentOf(run)
	i := slices.IndexFunc(dirs, func(dir string) bool { return dir != run && name != "" && experimentOf(dir) == name })
	if i < 0 {
		return "", hint.Usage(fmt.Errorf("runs/ has no earlier run of this experiment than %s", run), "name two runs: tare compare BASE NEW")
	}
	c.Notef("the run before it: %s", dirs[i])
	return dirs[i], nil
}

// newestFirst are the directories in runs/, the one that began last first. There is one at least.
func newestFirst() ([]string, error) {
	plans, err := filepath.Glob(filepath.Join(result.RunsDir, "*", result.PlanFile))
	if err != nil {
		return nil, fmt.Errorf("search for the newest run: %w", err)
	}
	began := map[string]time.Time{}
	for _, file := range plans {
		if at, err := os.Stat(file); err == nil { // the plan is written once
			began[filepath.Dir(file)] = at.ModTime()
		}
	}
	if len(began) == 0 {
		return nil, hint.Usage(errors.New("no directory is named, and runs/ has no run"), "name the directory that tare run printed")
	}
	return slices.SortedFunc(maps.Keys(began), func(a, b string) int { return cmp.Or(began[b].Compare(began[a]), cmp.Compare(b, a)) }), nil
}

// experimentOf is the name of a run's experiment, "" if it cannot be read.
func experimentOf(dir string) string {
	d, err := result.Open(dir)
	if err != nil {
		return ""
	}
	defer d.Close()
	return d.Plan().Experiment
}
