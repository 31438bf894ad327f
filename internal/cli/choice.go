package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
)

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
