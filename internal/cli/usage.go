package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/cli/console"
)

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
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return hint.Usage(fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath()), strict.DidYouMean(args[0], names))
}
